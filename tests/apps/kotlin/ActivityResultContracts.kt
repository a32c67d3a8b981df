package androidx.activity.result.contract

object ActivityResultContracts {
    class RequestPermission
}
