//! A transcript as one page that needs nothing else: pictures are inside, and
//! nothing of what was said is markup or is fetched.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::step::{Block, Outcome, Step, says};

/// The page up to its first step.
pub fn page_start(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n",
        title = escape(title),
    )
}

/// The page after its last step.
pub fn page_end() -> &'static str {
    "</body></html>\n"
}

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem;\
color:#222;background:#fff}\
section{border-left:4px solid #bbb;padding:.2rem 1rem;margin:1rem 0}\
.user{border-color:#3b7}.model{border-color:#47c}.tools{border-color:#c93}\
header{font-size:.85rem;color:#666}header b{color:#222}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f5;padding:.5rem;margin:.3rem 0}\
p{white-space:pre-wrap;overflow-wrap:anywhere}img{max-width:100%}\
.log{color:#666;font-style:italic}.failed{color:#b00}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}header b{color:#ddd}\
pre{background:#242424}.failed{color:#f77}}";

/// What a browser shows and never runs.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// One step of the page.
pub fn step(step: &Step) -> String {
    let Step { id, speaker, model, at, failure, instructions, blocks, usage } = step;
    let mut out = format!("<section class=\"{speaker}\"><header><b>{speaker}</b>");
    for said in [model, at, id].into_iter().filter(|said| !said.is_empty()) {
        out.push_str(&format!(" · {}", escape(said)));
    }
    out.push_str("</header>\n");
    for text in instructions {
        out.push_str(&format!("<p class=\"log\">system: {}</p>\n", escape(text)));
    }
    for block in blocks {
        out.push_str(&written(block));
    }
    if let Some(failure) = failure {
        out.push_str(&format!("<p class=\"failed\">{}</p>\n", escape(failure)));
    }
    if !usage.is_empty() {
        out.push_str(&format!("<header>tokens: {}</header>\n", escape(usage)));
    }
    out.push_str("</section>\n");
    out
}

fn written(block: &Block) -> String {
    match block {
        Block::Text(text) => format!("<p>{}</p>\n", escape(text)),
        Block::Image { media_type, data } if PICTURES.contains(&media_type.as_str()) => format!(
            "<img alt=\"a picture\" src=\"data:{media_type};base64,{}\">\n",
            BASE64_STANDARD.encode(data)
        ),
        Block::Image { media_type, data } => {
            format!("<p>[picture: {}, {} bytes]</p>\n", escape(media_type), data.len())
        }
        Block::ImageAt(url) => format!("<p>[picture: {}]</p>\n", escape(url)),
        Block::Call { id, name, arguments } => format!(
            "<div>→ <b>{}</b> {}<pre>{}</pre></div>\n",
            escape(name),
            escape(id),
            escape(arguments)
        ),
        Block::Result { id, name, status, outcome, log, content } => {
            let (class, mark) = match outcome {
                Outcome::Done => ("done", "✓"),
                Outcome::Failed => ("failed", "✗"),
            };
            let log = match log.is_empty() {
                true => String::new(),
                false => format!("<p class=\"log\">{}</p>", escape(log)),
            };
            let name = match name.is_empty() {
                true => String::new(),
                false => format!("<b>{}</b> ", escape(name)),
            };
            let content = match content.is_empty() || says(status, content) {
                true => String::new(),
                false => format!("<pre>{}</pre>", escape(content)),
            };
            format!(
                "<div><span class=\"{class}\">{mark} {name}{} {}</span>{log}{content}</div>\n",
                escape(id),
                escape(status)
            )
        }
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interaction::transcript;
    use crate::wire::pb::{Interaction, NodeFragments, Role};
    use crate::wire::{Chunk, NodeFragment};

    #[test]
    fn what_was_said_is_neither_markup_nor_a_command_of_the_terminal() {
        let interaction = Interaction {
            id: "<script>".to_owned(),
            role: Role::Model as i32,
            content: vec![Chunk::text("<script>alert(1)</script> \u{1b}[2J & \"quoted\"")],
            ..Interaction::default()
        };
        let step = Step::new(&interaction);
        let page = page_start("a <b>") + &super::step(&step) + page_end();
        assert!(!page.contains("<script") && !page.contains("a <b>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
        let text = transcript::text(&step);
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.starts_with("── model · <script>\n"), "{text}");
    }

    #[test]
    fn calls_show_their_status_their_log_and_what_the_model_was_told() {
        let fragment = NodeFragment {
            id: "echoed".to_owned(),
            payload: Some(crate::wire::pb::node_fragment::Payload::Chunk(Chunk::text("hi"))),
            ..NodeFragment::default()
        };
        let interaction = Interaction {
            id: "r".to_owned(),
            role: Role::User as i32,
            action_outputs: [
                ("c1".to_owned(), NodeFragments { fragments: vec![fragment] }),
                ("c2".to_owned(), NodeFragments::default()),
            ]
            .into(),
            backend_specific_metadata: [
                ("tool_logs".to_owned(), "{\"c1\":\"said hi\"}".into()),
                (
                    "tool_statuses".to_owned(),
                    "{\"c1\":{\"code\":0,\"message\":\"\"},\"c2\":{\"code\":5,\"message\":\"none\"}}"
                        .into(),
                ),
            ]
            .into(),
            ..Interaction::default()
        };
        let mut step = Step::new(&interaction);
        step.name_results(&mut [("c1".to_owned(), "echo".to_owned())].into());
        let text = transcript::text(&step);
        assert!(text.starts_with("── tools · r\n✓ echo c1 OK\n  │ said hi\n"), "{text}");
        assert!(text.contains("✗ c2 NOT_FOUND: none\n"), "{text}");
    }

    #[test]
    fn what_a_provider_said_of_itself_and_was_told_is_shown_and_nothing_twice() {
        let reply = r#"{"type":"message","role":"assistant","model":"m-2","content":[]}"#;
        let interaction = Interaction {
            id: "r".to_owned(),
            role: Role::Model as i32,
            content: vec![Chunk::new(crate::wire::chunk::JSON, reply)],
            system_instructions: vec![Chunk::text("Be brief.")],
            ..Interaction::default()
        };
        let mut step = Step::new(&interaction);
        step.appended_at(Some(pbjson_types::Timestamp { seconds: 0, nanos: 5 }));
        let text = transcript::text(&step);
        let head = "── model · m-2 · 1970-01-01T00:00:00+00:00 · r\nsystem: Be brief.\n";
        assert!(text.starts_with(head), "{text}");
        assert!(says("NOT_FOUND: no x", "no x") && says("NOT_FOUND: no x", "NOT_FOUND: no x"));
        assert!(!says("NOT_FOUND: no x", "no y") && !says("OK", ""));
    }
}
