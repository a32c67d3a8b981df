package androidx.activity

import android.content.Context
import android.content.Intent
import android.os.Bundle
import androidx.activity.result.ActivityResultLauncher
import androidx.activity.result.contract.ActivityResultContracts

open class ComponentActivity : Context() {
    lateinit var intent: Intent

    open fun onCreate(savedInstanceState: Bundle?) {}
    open fun onNewIntent(intent: Intent) {}

    fun registerForActivityResult(contract: ActivityResultContracts.RequestPermission, then: (Boolean) -> Unit) =
        ActivityResultLauncher<String>()
}
