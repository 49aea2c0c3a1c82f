//! Results for dialects that have text alone to show them with: what stands in
//! for pictures, and the pictures that follow the last result.

use super::{
    Image, Outcome, ToolResult,
    pairing::Answer,
    unit::{CallResult, Picture},
};

/// A result as text. A failure says so, since nothing else does.
pub(super) fn shown_text(result: &CallResult) -> String {
    let outcome = match (result.is_error, result.text.is_empty(), result.images.len()) {
        (true, _, _) if result.text.starts_with("Error: ") => return result.text.clone(),
        (true, _, _) => Outcome::Failed(result.text.clone()),
        (false, true, images @ 1..) => {
            let image = Image { media_type: String::new(), data: bytes::Bytes::new() };
            Outcome::Done { text: None, images: vec![image; images] }
        }
        (false, _, _) => return result.text.clone(),
    };
    let result = ToolResult { id: None, name: String::new(), outcome };
    result.text_naming_failure().to_string()
}

/// The same where the dialect marks failures apart.
pub(super) fn marked_text(result: &CallResult) -> String {
    match result.is_error {
        true => result.text.clone(),
        false => shown_text(result),
    }
}

/// The pictures of a round in the order of its calls; and, where they are of
/// more than one call, a note which are of which.
pub(super) fn after_results(answers: Vec<Answer>) -> (Option<String>, Vec<Picture>) {
    let with_images: Vec<&Answer> =
        answers.iter().filter(|answer| !answer.result.images.is_empty()).collect();
    let note = (with_images.len() > 1).then(|| {
        let mut first = 1;
        let mut notes = vec![];
        for answer in with_images {
            let last = first + answer.result.images.len() - 1;
            let which = match first == last {
                true => format!("image {first}"),
                false => format!("images {first} to {last}"),
            };
            notes.push(format!("{which} from {} (call {})", answer.name, answer.id));
            first = last + 1;
        }
        format!("Images from the tool results above, in order: {}.", notes.join("; "))
    });
    (note, answers.into_iter().flat_map(|answer| answer.result.images).collect())
}
