//! What messages say about items.

use proptest::prelude::*;

use super::{Commit, Keys, Numbers, Reason, Rules, links, pull_request};

fn rules(numbers: Numbers) -> Rules {
    Rules {
        numbers,
        issue_pages: vec!["github.com/contoso/shop/issues/".to_owned()],
        patterns: Vec::new(),
        keys: Keys::default(),
        appended_pull_requests: false,
    }
}

fn commit(message: &str) -> Commit<'_> {
    let (subject, body) = message.split_once('\n').unwrap_or((message, ""));
    Commit { subject, body, merge: subject.starts_with("Merge") }
}

fn of(message: &str, numbers: Numbers) -> Vec<(i64, Reason)> {
    let found = links(commit(message), &rules(numbers));
    found.into_iter().map(|link| (link.item, link.reason)).collect()
}

#[test]
fn numbers_of_pull_requests_that_a_bot_merged_are_not_items() {
    for (message, expected) in [
        ("Auto merge of #34 - ann:tidy, r=bob", vec![]),
        ("auto merge of #34 : ann/shop/tidy, r=bob", vec![]),
        ("Auto merge of #34 - ann:fix-3390-crash, r=bob", vec![(3390, Reason::Branch)]),
        ("auto merge of #34 : ann/shop/issue-3390, r=bob", vec![(3390, Reason::Branch)]),
        ("Rollup merge of #34 - ann:tidy, r=bob", vec![]),
        ("Merge #34 #35", vec![]),
        (
            "Auto merge of #34 - ann:tidy, r=bob\n\nhttps://github.com/contoso/shop/issues/12",
            vec![(12, Reason::Number)],
        ),
        ("Merge remote-tracking branch 'origin/pr/34'", vec![]),
        ("Merge branch 'refs/pull/34/head'", vec![]),
    ] {
        let (subject, body) = message.split_once('\n').unwrap_or((message, ""));
        let found = links(Commit { subject, body, merge: true }, &rules(Numbers::Items));
        let found: Vec<_> = found.into_iter().map(|link| (link.item, link.reason)).collect();
        assert_eq!(found, expected, "{message}");
    }
    assert_eq!(pull_request(commit("Auto merge of #34 - ann:tidy, r=bob")), Some(34));
}

#[test]
fn items_that_a_message_only_points_to_are_not_linked() {
    for (message, expected) in [
        ("Bump the library due to #12", vec![]),
        ("Tweaking #12 -- long lines", vec![]),
        ("Integration test for #12", vec![(12, Reason::Test)]),
        ("Fix importing (regression in fix for #12)", vec![]),
        ("A real fix would address #12\n\ncloses #11", vec![(11, Reason::Keyword)]),
        ("Release 2.4.1\n\nFixes #12", vec![]),
        ("Release the lock, fixes #12", vec![(12, Reason::Keyword)]),
        ("Crash\n\nCloses #11\nRefs #12", vec![(11, Reason::Keyword)]),
        (
            "Merged PR 5: Crash\n\nUntil the real thing (see #12)\n\nRelated work items: #11, #12",
            vec![(11, Reason::RelatedItems)],
        ),
        // What is listed alone is all there is.
        (
            "Merged PR 5: Crash\n\nAs reported (see #12)\n\nRelated work items: #12",
            vec![(12, Reason::RelatedItems)],
        ),
    ] {
        assert_eq!(of(message, Numbers::Items), expected, "{message}");
    }
}

#[test]
fn a_list_of_changes_names_items_by_their_keys() {
    let rules = Rules { patterns: vec!["SHOP-{id}".to_owned()], ..rules(Numbers::OtherHost) };
    let items = |message: &str| -> Vec<i64> {
        links(commit(message), &rules).into_iter().map(|link| link.item).collect()
    };
    assert_eq!(items("Javadoc\n\n- Style.\n- [SHOP-12] Add constants"), [12]);
    assert_eq!(items("Javadoc\n\n- SHOP-12: add constants"), [12]);
    assert_eq!(items("Javadoc\n\nBecause.\n\nSHOP-12\nSHOP-13"), [12, 13]);
    assert!(items("Javadoc\n\nThis is unlike\nSHOP-12 in many ways").is_empty());
}

#[test]
fn messages_name_items_in_the_ways_people_have() {
    use Reason::{Boards, Branch, Keyword, Number, Related, RelatedItems};
    for (message, expected) in [
        ("Fix crash on save, fixes #12", vec![(12, Keyword)]),
        ("Fixes #12, #13 and #14", vec![(12, Keyword), (13, Keyword), (14, Keyword)]),
        ("AB#77 crash on save", vec![(77, Boards)]),
        (
            "Crash on save\n\nRelated work items: #1, #22",
            vec![(1, RelatedItems), (22, RelatedItems)],
        ),
        (
            "Merged PR 55: Crash on save\n\nText.\n\nRelated work items: #123",
            vec![(123, RelatedItems)],
        ),
        (
            "Crash on save\n\nRelated work items:\n- #41\n- #42\n\nSee #7 of 9",
            vec![(41, RelatedItems), (42, RelatedItems)],
        ),
        ("Merge branch 'bugfix/812-save' into main", vec![(812, Branch)]),
        ("#812: crash on save", vec![(812, Number)]),
        ("Crash on save (fixes #812)", vec![(812, Keyword)]),
        ("Crash on save (#812).", vec![(812, Number)]),
        ("Crash in the test, not on save (#812)", vec![(812, Number)]),
        ("Crash on save (#812, #813)", vec![(812, Number), (813, Number)]),
        ("Resolved: #31", vec![(31, Keyword)]),
        ("Map is not written (fix #31)", vec![(31, Keyword)]),
        ("Map is lost, from Ann in GitHub issue 31.", vec![(31, Number)]),
        ("Option for the version (issue 31)", vec![(31, Number)]),
        ("[Fix #31] Crash on save", vec![(31, Keyword)]),
        ("gh-31: Crash on save", vec![(31, Number)]),
        ("Crash\n\n* [x] Closes #31", vec![(31, Keyword)]),
        ("Crash\n\nRefs #31, #32.", vec![(31, Number), (32, Number)]),
        ("Crash\n\nThis is a partial fix for issue #31", vec![(31, Keyword)]),
        ("Crash\n\nRelates to #31", vec![(31, Related)]),
        ("Crash\n\nA step toward fixing #31", vec![(31, Related)]),
        ("Crash\n\nRelated to [AB#31](https://dev.invalid)", vec![(31, Related)]),
        ("Crash (close #31) (and #32)", vec![(31, Keyword), (32, Keyword)]),
        ("Crash\n\nFixes https://github.com/contoso/shop/issues/31.", vec![(31, Keyword)]),
        ("Crash\n\nFixes\n#31", vec![(31, Keyword)]),
        ("Crash\n\nRelated to\n[AB#31](https://dev.invalid)", vec![(31, Related)]),
        ("Crash\n\nhttps://dev.azure.com/c/Shop/_workitems/edit/31/", vec![]),
        ("Crash\n\nFixes https://dev.azure.com/c/Shop/_workitems/edit/31", vec![(31, Boards)]),
        ("Crash\n\nWill be there with\n[AB#30].\nFixes [AB#31]", vec![(31, Boards)]),
        ("Crash\n\nAs agreed in [AB#30] the sum is right.\nFixes [AB#31]", vec![(31, Boards)]),
        ("Revert two changes\n\nFixes #31, and reverts #30.", vec![(31, Keyword)]),
        ("Crash on save\n\n#31", vec![(31, Number)]),
        ("Crash on save in the\nsecond tab (#31).", vec![(31, Number)]),
    ] {
        assert_eq!(of(message, Numbers::Items), expected, "{message}");
    }
}

#[test]
fn what_only_looks_like_a_link_is_none() {
    for message in [
        "Merged PR 55: Crash on save",
        "Merge pull request #55 from ann/topic",
        "Step #5 of 10",
        "Attempt #5",
        "Part #5/10 of the move",
        "Revert \"Fix crash, fixes #12\"\n\nThis reverts commit abc. Fixes #12",
        "Merge branch 'main' into bugfix/812-save",
        "owner/name#12 is related",
        "Use C#7 features",
        "See https://example.invalid/page#12",
        "Colour #123abc for links",
        "Follow-up\n\nFollow-up to #12",
        "PR #12 left this behind",
        "Crash\n\nIn #12 the file was moved, and since #13 it is read.",
        "Crash\n\nThis does not fix #12",
        "Crash\n\nIt was added in #11 to fix #12",
        "Crash\n\nFixes https://github.com/contoso/other/issues/12",
        "Reverts r23190-r23187 because of #12",
        "Revert changes made in r21251 (#12)",
        "Revert 1a2b3c4: fixes #12",
        "Crash\n\n* #12 broke #13",
        "Crash in PR #11\n\nReferences:\n#12 #13",
        "Crash\n\nRevert \"Right sum (#12)\"",
        "Crash\n\nThese are unused after PR #12 and #13.",
    ] {
        assert_eq!(of(message, Numbers::Items), vec![], "{message}");
    }
    let squashed = commit("Crash on save (#34)");
    let appended = Rules { appended_pull_requests: true, ..rules(Numbers::Items) };
    assert_eq!(links(squashed, &appended), vec![]);
    assert_eq!(pull_request(squashed), Some(34));
}

#[test]
fn on_another_host_only_its_own_way_of_naming_items_counts() {
    assert_eq!(of("Fixes #12 and AB#13", Numbers::OtherHost), vec![(13, Reason::Boards)]);
    let listed = "Crash\n\nRelated work items: #14";
    assert_eq!(of(listed, Numbers::OtherHost), vec![(14, Reason::RelatedItems)]);
}

#[test]
fn a_team_may_name_its_own_way() {
    let patterns = vec!["SHOP-{id}".to_owned(), "ticket {id}".to_owned()];
    let rules = Rules { patterns, ..rules(Numbers::OtherHost) };
    let of = |message| -> Vec<(i64, Reason)> {
        links(commit(message), &rules).into_iter().map(|l| (l.item, l.reason)).collect()
    };
    assert_eq!(of("shop-12: crash"), vec![(12, Reason::Pattern)]);
    assert_eq!(
        of("Crash\n\nFixes SHOP-12, SHOP-13"),
        vec![(12, Reason::Keyword), (13, Reason::Keyword)]
    );
    assert_eq!(of("Crash, Ticket 7"), vec![(7, Reason::Pattern)]);
    assert_eq!(of("WORKSHOP-12 and SHOP-12b and SHOP-"), vec![]);
    assert_eq!(of("Crash\n\nAs in SHOP-12 the sum is wrong"), vec![]);
}

#[test]
fn pull_requests_are_known_by_the_subjects_that_hosts_write() {
    for (subject, expected) in [
        ("Merged PR 55: Crash", Some(55)),
        ("Merge pull request 56 from a/b into main", Some(56)),
        ("Merge pull request #57 from ann/topic", Some(57)),
        ("Crash on save (#58)", Some(58)),
        ("Crash on save (fixes #58)", None),
        ("Crash on save", None),
        ("(#)", None),
    ] {
        assert_eq!(pull_request(commit(subject)), expected, "{subject}");
    }
}

proptest! {
    #[test]
    fn any_message_is_read_and_each_item_stands_once(
        subject in "(Merge branch 'main'|.{0,80})", body in "(?s)(.{0,300}|(Fixes #[0-9]{1,2}\n){0,4})",
        pattern in ".{0,6}\\{id\\}.{0,3}", merge: bool
    ) {
        let commit = Commit { subject: &subject, body: &body, merge };
        let rules = Rules { patterns: vec![pattern], ..rules(Numbers::Items) };
        let found = links(commit, &rules);
        let _any = pull_request(commit);
        prop_assert!(found.windows(2).all(|pair| pair[0].item < pair[1].item));
    }

    #[test]
    fn an_item_named_by_keyword_is_found_whatever_stands_around(
        before in "[a-zA-Z ]{0,40}", after in "[ .,;)]{1}[a-z ]{0,40}", item in 1i64..1_000_000
    ) {
        let message = format!("{before}\n\nFixes #{item}{after}");
        prop_assert!(of(&message, Numbers::Items).contains(&(item, Reason::Keyword)));
    }
}

#[test]
fn items_with_keys_are_named_by_them_and_by_nothing_else() {
    let mut keys = Keys::default();
    keys.insert("SHOP-12", 10_012);
    keys.insert("SHOP-13", 10_013);
    let rules = Rules { keys, patterns: vec!["ticket {id}".to_owned()], ..rules(Numbers::Nothing) };
    use Reason::{Branch, Key, Keyword, Pattern, Related};
    for (message, expected) in [
        ("SHOP-12: crash on save", vec![(10_012, Key)]),
        ("[shop-12] crash on save", vec![(10_012, Key)]),
        ("Crash on save (SHOP-12)", vec![(10_012, Key)]),
        ("SHOP-12, SHOP-13 crash", vec![(10_012, Key), (10_013, Key)]),
        ("Crash on save\n\nFixes SHOP-12 and SHOP-13", vec![(10_012, Keyword), (10_013, Keyword)]),
        ("Crash\n\nJira: SHOP-12", vec![(10_012, Key)]),
        ("Crash\n\nSHOP-12", vec![(10_012, Key)]),
        ("Crash\n\nCloses https://contoso.atlassian.net/browse/SHOP-12", vec![(10_012, Keyword)]),
        ("Crash\n\nCloses #193 from ann/SHOP-12", vec![(10_012, Branch)]),
        ("Crash\n\nRelated to SHOP-12", vec![(10_012, Related)]),
        ("Merge branch 'feature/shop-12-crash' into main", vec![(10_012, Branch)]),
        ("Merge branch 'main' into SHOP-12", vec![]),
        ("Crash, ticket 13", vec![(10_013, Pattern)]),
        ("Crash\n\nSee SHOP-12. Since SHOP-13 it is broken.", vec![(10_012, Related)]),
        ("SHOP-12: crash, the other half is SHOP-13", vec![(10_012, Key)]),
        ("SHOP-99: crash\n\nIn SHOP-12 it was moved. See SHOP-13.", vec![]),
        ("Reverting SHOP-12, because it is slow", vec![]),
        ("Crash of SHOP-99 and XSHOP-12", vec![]),
        ("Fixes #12, AB#13\n\nRelated work items: #12", vec![]),
        ("Merge branch 'bugfix/12-save' into main", vec![]),
        ("Revert \"SHOP-12: crash on save\"", vec![]),
    ] {
        let found = links(commit(message), &rules);
        let found: Vec<_> = found.into_iter().map(|link| (link.item, link.reason)).collect();
        assert_eq!(found, expected, "{message}");
    }
}

#[test]
fn what_points_to_an_item_counts_if_the_message_names_no_other() {
    use Reason::{Keyword, Number, Related};
    for (message, expected) in [
        ("Crash\n\nSee #12", vec![(12, Related)]),
        ("Crash (#34)\n\nSee #12", vec![(12, Related), (34, Number)]),
        ("Crash\n\nSee https://github.com/contoso/shop/issues/12", vec![(12, Related)]),
        (
            "Crash\n\nTests follow. See https://dev.invalid/x/_workitems/edit/12",
            vec![(12, Related)],
        ),
        ("Less noise (workaround for bug #12)", vec![(12, Related)]),
        ("Crash\n\nThe crash was reported in #12.", vec![(12, Related)]),
        ("Crash\n\nSupport uploads from the client #12.", vec![(12, Related)]),
        ("Crash\n\nSee #12, #13 and #14", vec![]),
        ("Crash\n\nSee #12\n\nFixes #13", vec![(13, Keyword)]),
        ("Crash\n\nThis needs to be redone: see #12", vec![]),
        ("Crash\n\nThe refactoring in #12 moved it.", vec![]),
        ("Crash\n\nTaken from neovim #12.", vec![]),
        ("Crash\n\nThe argument #4 is no string.", vec![]),
        ("Disable the upload test\n\nSee #12", vec![]),
        ("tests: skip the upload test, see #12", vec![]),
        ("Disable the upload\n\nSee #12", vec![(12, Related)]),
    ] {
        assert_eq!(of(message, Numbers::Items), expected, "{message}");
    }
}

#[test]
fn a_sentence_that_resolves_a_problem_resolves_its_item() {
    for (message, expected) in [
        ("Crash\n\nThis fixes the crash of issue #12, but not all of it", vec![12]),
        ("Crash\n\nIt fixes a bad bug\nas shown in issue #12.", vec![12]),
        ("Crash\n\nThis resolves the problem discussed in #12", vec![12]),
        ("Crash\n\nIt was fixed as part of the release of #12", vec![]),
        ("It should not stop the log #12", vec![12]),
        ("It uses the new one and not the old, fix #12", vec![12]),
        ("Ignore the test until there is a fix for #12", vec![]),
        ("Crash\n\n* [ ] Closes #12", vec![12]),
    ] {
        let keyword = of(message, Numbers::Items).into_iter().map(|(item, _)| item);
        assert_eq!(keyword.collect::<Vec<_>>(), expected, "{message}");
    }
}

#[test]
fn numbers_without_a_sign_are_items_if_a_word_says_so() {
    for (message, expected) in [
        ("Issue6332", vec![6332]),
        ("Fixes Issue-1170", vec![1170]),
        ("Fix 1720, and comments", vec![1720]),
        ("Fix for 1118", vec![1118]),
        ("3984: newer compiler", vec![3984]),
        ("Crash\n\nFix issue 1027. Always keep it.", vec![1027]),
        ("Fix 404.", vec![]),
        ("Fix 32 bit build", vec![]),
        ("Fixes 2024.1 builds", vec![]),
        ("Issues 2 and 3", vec![]),
    ] {
        let found: Vec<i64> = of(message, Numbers::Items).into_iter().map(|l| l.0).collect();
        assert_eq!(found, expected, "{message}");
    }
}

#[test]
fn pages_of_items_count_on_every_host() {
    let gitlab = "gitlab.contoso.invalid/shop/web/-/issues/".to_owned();
    let rules = Rules { issue_pages: vec![gitlab], ..rules(Numbers::OtherHost) };
    for (message, expected) in [
        ("Crash\n\nFixes https://gitlab.contoso.invalid/shop/web/-/issues/12", vec![12]),
        ("Crash\n\nFixes: https://gitlab.contoso.invalid/ann/web/-/work_items/12", vec![12]),
        ("Crash\n\nFixes shop/web#12", vec![12]),
        ("Crash\n\nFixes web#12", vec![12]),
        ("Crash\n\nFixes https://gitlab.contoso.invalid/shop/other/-/issues/12", vec![]),
        ("Crash\n\nFixes shop/other#12, #13", vec![]),
    ] {
        let found = links(commit(message), &rules).into_iter().map(|link| link.item);
        assert_eq!(found.collect::<Vec<_>>(), expected, "{message}");
    }
}

#[test]
fn merges_of_other_peoples_work_count_only_with_what_a_person_adds() {
    for (message, expected) in [
        ("Merge branch '4.10.x'\n\n* 4.10.x:\n  (#12) Add a dependency", vec![]),
        ("Merge branch '5.8.x' into 6.0.x\n\nCloses #12", vec![12]),
        ("Merge remote-tracking branch 'origin/stable' into ann/issue-812", vec![]),
        ("Merge up 047fde5 to main\n\n* commit '047fde5':\n  (#12) Collect them", vec![]),
        ("Merge pull request #7 from ann/revert-812", vec![]),
        ("Merge pull request #7 from ann/topic\n\nRevert \"Fixes #12\"", vec![]),
        ("Merge pull request #7 from ann/topic\n\n#812 don't change the address", vec![812]),
        ("Squashed 'docs/' changes from f3c88b0..b047068\n\n1a2b3c4 Fixes #12", vec![]),
        ("Merged revisions 610-612 via svnmerge\n\nFixes #12", vec![]),
        ("Revert \"Revert \"Right sum, fixes #12\"\"", vec![12]),
    ] {
        let found: Vec<i64> = of(message, Numbers::Items).into_iter().map(|l| l.0).collect();
        assert_eq!(found, expected, "{message}");
    }
}

#[test]
fn what_a_second_reader_found_is_read_as_they_read_it() {
    for (message, expected) in [
        ("More tests\n\nHelps: #12", vec![12]),
        ("Stop the server\n\nResolves: Contoso/Shop#12", vec![12]),
        ("Stop the server\n\nResolves: contoso/other#12", vec![]),
        ("Merge branch 'master' into 'master'\n\nCloses #12\n\nSee merge request a/b!7", vec![12]),
        ("Merge branch 'bug9446' of https://x/y into bug9446", vec![]),
        ("More checks\n\nIssue #12 will take care of the rest.\n\nFixes: #13", vec![13]),
        ("More checks\n\nIssue #12", vec![12]),
        ("Recursion that was exposed by #12", vec![]),
        ("Passwords with spaces\n\nThis is a fix for trac #12", vec![12]),
        ("Blend tool\n\nWork item 812, \"Merge it\".", vec![812]),
    ] {
        let found: Vec<i64> =
            of(message, Numbers::Items).into_iter().map(|(item, _)| item).collect();
        assert_eq!(found, expected, "{message}");
    }
}
