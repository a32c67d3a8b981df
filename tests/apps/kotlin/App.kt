package android.app

import android.content.Context
import android.content.Intent

open class Application : Context() {
    init {
        running = this
    }

    open fun onCreate() {}

    companion object {
        lateinit var running: Application
    }
}

class Notification(val title: String, val picture: Any?, val tap: PendingIntent, val actions: Map<String, PendingIntent>)

class NotificationChannel(val id: String, val name: CharSequence, val importance: Int)

open class NotificationManager private constructor() {
    val channels = mutableListOf<String>()
    val shown = mutableMapOf<String, Notification>()

    fun createNotificationChannel(channel: NotificationChannel) {
        channels.add(channel.id)
    }

    fun notify(tag: String, id: Int, notification: Notification) {
        shown[tag] = notification
    }

    fun cancel(tag: String, id: Int) {
        shown.remove(tag)
    }

    companion object : NotificationManager() {
        const val IMPORTANCE_HIGH = 4
    }
}

class PendingIntent private constructor(val intent: Intent) {
    companion object {
        const val FLAG_UPDATE_CURRENT = 1 shl 27
        const val FLAG_IMMUTABLE = 1 shl 26

        fun getActivity(context: Context, code: Int, intent: Intent, flags: Int) = PendingIntent(intent)
    }
}
