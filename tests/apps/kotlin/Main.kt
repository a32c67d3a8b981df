// A phone with the app. The first argument is the user token; the payload of a notification comes from
// standard input.

import android.app.NotificationManager
import android.content.Context
import com.google.firebase.messaging.FirebaseMessaging
import com.google.firebase.messaging.RemoteMessage
import java.util.concurrent.ExecutionException
import org.json.JSONObject

object R {
    object drawable {
        const val ic_notification = 1
    }
}

fun main(arguments: Array<String>) {
    val app = App()
    app.onCreate()
    check(NotificationManager.channels == listOf(App.CHANNEL))

    // The log-in waits for the token.
    val device = app.device
    device.logIn(arguments[0]).get()
    device.setTag("news", true).get()
    device.setAttribute("favourite_team", "blue").get()
    FirebaseMessaging.getInstance().token.succeed("fcm-token-of-the-phone")
    PushService().onNewToken("next-fcm-token-of-the-phone")
    device.sync().get()
    println("logged in")

    val payload = JSONObject(readln()).getJSONObject("message").getJSONObject("data")
    val data = payload.keys().asSequence().associateWith { payload.getString(it) }
    PushService().onMessageReceived(RemoteMessage(data))
    val shown = NotificationManager.shown.getValue(data.getValue("notification_id"))
    check(shown.picture != null) { "the notification has no picture" }
    check(shown.actions.keys == setOf("Track")) { "the buttons are ${shown.actions.keys}" }
    for (tap in listOf(shown.tap, shown.actions.getValue("Track"))) {
        val activity = MainActivity()
        activity.intent = tap.intent
        activity.onCreate(null)
        activity.askForPermission()
    }
    val opened = Context.started.map { it.data.toString() }
    check(NotificationManager.shown.isEmpty()) { "a notification stays" }
    check(opened == listOf("shop://order/7", "https://shop.example/7")) { "opened $opened" }

    // The server has refused the first report for now, and has not answered the second one.
    repeat(2) { device.sync().get() }
    println("reported")
    readln()
    device.logOut().get()
    try {
        device.logIn("forged").get()
        error("a forged user token was accepted")
    } catch (failure: ExecutionException) {
        val cause = failure.cause as NotifyDevice.Failure
        check(cause.status == 400 && !cause.isUnknownDevice) { cause }
    }
    println("logged out")
    System.exit(0)
}
