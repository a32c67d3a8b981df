// Firebase, whose token arrives when the test says so.

package com.google.firebase.messaging

import android.content.Context

class Task<T> {
    private var listener: (T) -> Unit = {}

    fun addOnSuccessListener(listener: (T) -> Unit) = apply { this.listener = listener }
    fun succeed(result: T) = listener(result)
}

class FirebaseMessaging private constructor() {
    val token = Task<String>()

    companion object {
        private val only = FirebaseMessaging()

        fun getInstance() = only
    }
}

class RemoteMessage(val data: Map<String, String>, val notification: Notification? = null, val collapseKey: String? = null) {
    class Notification(val title: String?, val body: String?, val tag: String? = null)
}

open class FirebaseMessagingService : Context() {
    open fun onNewToken(token: String) {}
    open fun onMessageReceived(message: RemoteMessage) {}
}
