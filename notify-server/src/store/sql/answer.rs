//! The result of an operation on its way back to the caller. Only the caller knows the type of the
//! result, so that the code of queues and threads is compiled once and not for each operation.

use std::any::Any;

/// A result of any type.
pub(in crate::store) type Answer = Box<dyn Any + Send>;

/// Hides the type of a result.
pub(in crate::store) fn pack<T: Send + 'static>(result: T) -> Answer {
    Box::new(result)
}

/// The result as the type that was packed.
///
/// # Panics
/// When another type was packed.
pub(in crate::store) fn unpack<T: 'static>(answer: Answer) -> T {
    *answer.downcast().expect("a caller gets the result of its own operation")
}
