package androidx.core.app

import android.app.Notification
import android.app.PendingIntent
import android.content.Context
import android.graphics.Bitmap

object NotificationCompat {
    open class Style {
        var picture: Bitmap? = null
    }

    class BigPictureStyle : Style() {
        fun bigPicture(bitmap: Bitmap) = apply { picture = bitmap }
    }

    class Builder(context: Context, val channel: String) {
        private var title = ""
        private var tap: PendingIntent? = null
        private var picture: Bitmap? = null
        private val actions = mutableMapOf<String, PendingIntent>()

        fun setSmallIcon(icon: Int) = this
        fun setContentTitle(text: CharSequence?) = apply { title = text.toString() }
        fun setContentText(text: CharSequence?) = this
        fun setAutoCancel(cancel: Boolean) = this
        fun setContentIntent(intent: PendingIntent?) = apply { tap = intent }
        fun setLargeIcon(icon: Bitmap?) = this
        fun setStyle(style: Style?) = apply { picture = style?.picture }
        fun addAction(icon: Int, text: CharSequence, intent: PendingIntent) = apply { actions[text.toString()] = intent }
        fun build() = Notification(title, picture, tap!!, actions)
    }
}
