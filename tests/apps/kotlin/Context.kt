// The classes of Android that the listings in docs/apps.md use. The preferences are a map; what an app starts
// or shows is recorded.

package android.content

import android.app.Application
import android.app.NotificationManager
import android.net.Uri

interface SharedPreferences {
    fun getString(key: String, default: String?): String?
    fun edit(): Editor

    interface Editor {
        fun putString(key: String, value: String?): Editor
        fun apply()
    }
}

open class Context {
    val packageName = "com.example.shop"
    val packageManager = PackageManager()
    val application: Application get() = Application.running

    fun getSharedPreferences(name: String, mode: Int) = object : SharedPreferences {
        override fun getString(key: String, default: String?) =
            synchronized(texts) { texts["$name/$key"] } ?: default

        override fun edit() = object : SharedPreferences.Editor {
            private val changes = mutableMapOf<String, String?>()

            override fun putString(key: String, value: String?) = apply { changes["$name/$key"] = value }
            override fun apply() = synchronized(texts) { texts.putAll(changes) }
        }
    }

    fun <T> getSystemService(service: Class<T>): T = service.cast(NotificationManager)

    fun startActivity(intent: Intent) {
        started.add(intent)
    }

    companion object {
        const val MODE_PRIVATE = 0
        private val texts = mutableMapOf<String, String?>()
        val started = mutableListOf<Intent>()
    }
}

class PackageManager {
    class PackageInfo(val versionName: String?)

    fun getPackageInfo(name: String, flags: Int) = PackageInfo("3.1.0")
}

class Intent private constructor(val data: Uri?) {
    private val extras = mutableMapOf<String, String?>()

    constructor(context: Context, activity: Class<*>) : this(null)
    constructor(action: String, data: Uri) : this(data)

    fun putExtra(name: String, value: String?) = apply { extras[name] = value }
    fun getStringExtra(name: String) = extras[name]

    companion object {
        const val ACTION_VIEW = "android.intent.action.VIEW"
    }
}
