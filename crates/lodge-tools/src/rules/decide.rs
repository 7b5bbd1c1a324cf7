//! Decides a permission request: allow, deny or ask.

use lodge_events::{PermissionRequest, PermissionResultKind, PermissionRule};

use super::{
    Decision, Effect, Mode, Place, Rule, RuleSet, Source,
    allowing::Allowing,
    subject::{Subject, is_in_own_words},
};

/// Decides a request by the rules, or says that somebody has to be asked.
pub fn decide(request: &PermissionRequest, rules: &RuleSet, place: &Place) -> Decision {
    let subject = Subject::new(request, rules, place);
    let managed = place.managed.iter().map(|rule| (Source::Managed, rule));
    let all: Vec<(Source, &Rule)> = managed
        .chain(rules.rules.iter().map(|(source, rule)| (*source, rule)))
        .chain(place.session.iter().map(|rule| (Source::Session, rule)))
        .collect();
    if let Some((path, why)) = subject.excluded(rules) {
        return Decision::Deny {
            why: format!("{} {why}", path.display()),
            kind: PermissionResultKind::DeniedByContentExclusion,
            rule: None,
            path: Some(path.display().to_string()),
        };
    }
    let denies = |rule: &Rule| rule.effect == Effect::Deny && subject.touches(&rule.what, &rules.location);
    if let Some((source, rule)) = all.iter().find(|(_, rule)| denies(rule)) {
        return Decision::Deny {
            why: format!("denied by {}", source.words()),
            kind: PermissionResultKind::DeniedByRules,
            rule: Some(rule.named()),
            path: None,
        };
    }
    if rules.policy.mode == Mode::DenyAll {
        return Decision::Deny {
            why: "everything is denied in this mode".to_owned(),
            kind: PermissionResultKind::DeniedByRules,
            rule: None,
            path: None,
        };
    }
    let asks = |rule: &Rule| rule.effect == Effect::Ask && subject.touches(&rule.what, &rules.location);
    if all.iter().any(|(_, rule)| asks(rule)) {
        return Decision::AskByPolicy { why: None };
    }
    let hides = |(source, rule): &&(Source, &Rule)| subject.hides_from(*source, rule, &rules.location);
    let unchecked: Vec<&(Source, &Rule)> = all.iter().filter(hides).collect();
    if !unchecked.is_empty() {
        let why = Some(could_not_check(request, &unchecked));
        let policy = unchecked.iter().any(|(source, _)| *source == Source::Managed);
        return if policy {
            Decision::AskByPolicy { why }
        } else {
            Decision::Ask { why }
        };
    }
    if let Some(why) = subject.may_show_excluded(rules) {
        return Decision::Ask { why: Some(why) };
    }
    match rules.policy.mode {
        Mode::ApproveAll => {
            return Decision::Allow {
                why: "everything is allowed in this mode".to_owned(),
                approved: true,
            };
        }
        Mode::Ask | Mode::AutoApproveSafe | Mode::DenyAll => {}
    }
    if let PermissionRequest::CustomTool(tool) = request
        && tool.skip_permission == Some(true)
    {
        return Decision::Allow {
            why: "the tool needs no permission".to_owned(),
            approved: true,
        };
    }
    let allowing = Allowing::new(&subject, all, rules, place);
    allowing.answer(request).unwrap_or(Decision::Ask { why: None })
}

/// Names rules that cannot be applied to a request, for people.
fn could_not_check(request: &PermissionRequest, rules: &[&(Source, &Rule)]) -> String {
    let names: Vec<String> = rules
        .iter()
        .take(3)
        .map(|(source, rule)| {
            let PermissionRule { kind, argument } = rule.named();
            format!("{kind} {} ({})", argument.unwrap_or_default(), source.words())
        })
        .collect();
    let more = if rules.len() > names.len() { ", …" } else { "" };
    let unknown = match is_in_own_words(request) {
        true => "Only the agent's own words say what this request does.",
        false => "What this command runs or reads is only known at run time.",
    };
    format!(
        "{unknown} These rules could not be checked: {}{more}.",
        names.join(", ")
    )
}

/// Whether policy denies a request or wants a person to answer it.
pub fn governs(request: &PermissionRequest, rules: &RuleSet, place: &Place) -> bool {
    if place.managed.is_empty() {
        return false;
    }
    let subject = Subject::new(request, rules, place);
    let strict = place.managed.iter().filter(|rule| rule.effect != Effect::Allow);
    strict.into_iter().any(|rule| {
        let base = &rules.location;
        subject.touches(&rule.what, base) || subject.hides_from(Source::Managed, rule, base)
    })
}
