package androidx.activity.result

class ActivityResultLauncher<I> {
    val launched = mutableListOf<I>()

    fun launch(input: I) {
        launched.add(input)
    }
}
