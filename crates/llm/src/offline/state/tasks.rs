//! Computes what is left of a plan. Tasks that are changed by number keep the number in the fact's words (`2. Sow; 3. Water`), so
//! that a later exchange can settle them.

use std::collections::BTreeMap;

use recapd_core::domain::effects::Effects;

const JOINT: &str = "; ";

/// Returns the tasks that are open after `effects`. `earlier` lists those that were open before.
pub(super) fn open_tasks(earlier: &str, effects: &Effects) -> String {
    let has_numbers = effects.plan.iter().all(|entry| entry.number.is_some());
    if !has_numbers {
        let open_entries = effects.plan.iter().filter(|entry| entry.is_left());
        return open_entries.map(|entry| entry.text.as_str()).collect::<Vec<_>>().join(JOINT);
    }
    let mut tasks = numbered(earlier);
    if tasks.is_empty() && effects.plan.is_empty() {
        return earlier.to_owned();
    }
    for entry in &effects.plan {
        let number = entry.number.unwrap_or_default();
        tasks.remove(&number);
        if entry.is_left() {
            tasks.insert(number, entry.text.clone());
        }
    }
    for change in effects.task_changes.iter().filter(|change| !change.status.is_left()) {
        tasks.remove(&change.number);
    }
    let tasks = tasks.into_iter().map(|(number, text)| format!("{number}. {text}"));
    tasks.collect::<Vec<_>>().join(JOINT)
}

/// Reads tasks from a fact's words. A part without a number belongs to the task before it.
fn numbered(fact_text: &str) -> BTreeMap<u32, String> {
    let mut tasks: BTreeMap<u32, String> = BTreeMap::new();
    let mut last = None;
    for part in fact_text.split(JOINT) {
        let task = part.split_once(". ").and_then(|(number, text)| Some((number.parse().ok()?, text)));
        match (task, last) {
            (Some((number, text)), _) => {
                tasks.insert(number, text.to_owned());
                last = Some(number);
            }
            (None, Some(number)) => {
                let task = tasks.entry(number).or_default();
                task.push_str(JOINT);
                task.push_str(part);
            }
            (None, None) => {}
        }
    }
    tasks
}

#[cfg(test)]
mod tests {
    use recapd_core::domain::effects::{PlanEntry, PlanStatus, TaskChange};

    use super::*;

    fn created(number: Option<u32>, text: &str) -> PlanEntry {
        PlanEntry { number, text: text.to_owned(), status: PlanStatus::Open }
    }

    #[test]
    fn tasks_are_settled_by_their_number_in_later_exchanges() {
        let begun = Effects {
            plan: vec![
                created(Some(1), "Dig"),
                created(Some(2), "Sow; then water"),
                created(Some(3), "Rest"),
            ],
            ..Effects::default()
        };
        let all = open_tasks("", &begun);
        assert_eq!(all, "1. Dig; 2. Sow; then water; 3. Rest");
        let change = |number, status| TaskChange { number, status };
        let later = Effects {
            plan: vec![created(Some(4), "Harvest")],
            task_changes: vec![
                change(1, PlanStatus::Done),
                change(2, PlanStatus::Begun),
                change(3, PlanStatus::Cancelled),
            ],
            ..Effects::default()
        };
        let left_now = open_tasks(&all, &later);
        assert_eq!(left_now, "2. Sow; then water; 4. Harvest");
        let last = Effects {
            task_changes: vec![
                change(2, PlanStatus::Done),
                change(4, PlanStatus::Done),
                change(9, PlanStatus::Done),
            ],
            ..Effects::default()
        };
        assert_eq!(open_tasks(&left_now, &last), "");
    }

    #[test]
    fn a_whole_list_replaces_what_was_left_and_has_no_numbers() {
        let whole = Effects { plan: vec![created(None, "Prune")], ..Effects::default() };
        assert_eq!(open_tasks("1. Dig", &whole), "Prune");
        let change = TaskChange { number: 1, status: PlanStatus::Done };
        let unknown = Effects { task_changes: vec![change], ..Effects::default() };
        assert_eq!(open_tasks("Prune", &unknown), "Prune");
    }
}
