// The classes of Android that the listing in docs/apps.md uses. The preferences are a map.

package android.content

interface SharedPreferences {
    fun getString(key: String, default: String?): String?
    fun edit(): Editor

    interface Editor {
        fun putString(key: String, value: String?): Editor
        fun clear(): Editor
        fun apply()
    }
}

class Context {
    private val texts = mutableMapOf<String, String?>()

    fun getSharedPreferences(name: String, mode: Int) = object : SharedPreferences {
        override fun getString(key: String, default: String?) = texts["$name/$key"] ?: default

        override fun edit() = object : SharedPreferences.Editor {
            private val changes = mutableListOf<() -> Unit>()

            override fun putString(key: String, value: String?) =
                apply { changes.add { texts["$name/$key"] = value } }
            override fun clear() =
                apply { changes.add { texts.keys.removeAll { it.startsWith("$name/") } } }
            override fun apply() = changes.forEach { it() }
        }
    }

    companion object {
        const val MODE_PRIVATE = 0
    }
}
