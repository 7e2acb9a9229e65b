//! The check of a log: each segment is read, and must follow the one before it.

use std::path::{Path, PathBuf};

use super::moment::{Log, Part, after, before, detail};
use super::segment::SegmentName;
use crate::error::BackupError;
use crate::{OnProgress, Progress};

/// The result for one span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedSpan {
    /// The id of the span.
    pub span: String,
    /// The first second that can be restored; `None` if the span has no base yet.
    pub from: Option<u64>,
    /// The last one, but for what the problems say.
    pub to: u64,
    /// The segments that were read.
    pub segments: u64,
    /// The segments that are missing or damaged.
    pub problems: Vec<LogProblem>,
}

/// A segment that is missing or damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogProblem {
    /// The segment.
    pub path: PathBuf,
    /// The fault.
    pub detail: String,
    /// The last second before it that can be restored, if there is one.
    pub before: Option<u64>,
    /// The first second behind it that can be restored, if there is one.
    pub after: Option<u64>,
}

/// Checks the log of a repository; nothing is returned if there is none.
///
/// # Errors
/// When a folder or a manifest cannot be read.
pub(crate) fn verify_spans(
    path: &Path,
    on_progress: OnProgress<'_>,
) -> Result<Vec<VerifiedSpan>, BackupError> {
    let log = Log::open(path)?;
    let mut verified = Vec::with_capacity(log.parts.len());
    let mut progress = Progress {
        files_total: log
            .parts
            .iter()
            .map(|part| part.span.segments.len() as u64)
            .sum(),
        bytes_total: log.parts.iter().map(|part| part.span.total_bytes()).sum(),
        ..Progress::default()
    };
    for part in &log.parts {
        let mut span = VerifiedSpan {
            span: part.span.id.clone(),
            from: part.from(),
            to: part.reached,
            ..VerifiedSpan::default()
        };
        let mut last = None;
        for name in &part.span.segments {
            progress.file = name.to_text();
            let fault = match log.spans.read(&part.span.id, name) {
                Err(fault) => Some(fault),
                Ok(segment) => {
                    let start = (segment.start.group, segment.start.chain);
                    let follows = match last {
                        Some(last) => last == start,
                        None => span.segments > 0 || part.begins_with(name),
                    };
                    last = Some((segment.end.group, segment.end.chain));
                    match segment.end_at(u64::MAX) {
                        Err(error) => Some(detail(&error)),
                        Ok(_) if follows => None,
                        Ok(_) => Some("the segment before it is missing".to_owned()),
                    }
                }
            };
            span.segments += 1;
            let path = log.spans.path(&part.span.id, name);
            progress.files_done += 1;
            progress.bytes_done += part.span.bytes.get(name).copied().unwrap_or(0);
            on_progress(&progress);
            if let Some(detail) = fault {
                last = None;
                span.problems.push(problem(part, name, path, detail));
            }
        }
        if let Some(fault) = &part.fault {
            span.problems.push(LogProblem {
                path: log.spans.note(&part.span.id),
                detail: fault.clone(),
                before: part.from().map(|_| part.reached),
                after: None,
            });
        }
        verified.push(span);
    }
    Ok(verified)
}

fn problem(part: &Part, name: &SegmentName, path: PathBuf, detail: String) -> LogProblem {
    LogProblem {
        path,
        detail,
        before: before(part, name),
        after: after(part, name),
    }
}
