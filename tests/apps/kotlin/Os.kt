package android.os

class Bundle

object Build {
    object VERSION {
        const val SDK_INT = 34
        const val RELEASE = "14"
    }
}
