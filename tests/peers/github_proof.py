"""Drives the simulated GitHub with PyGithub, a client we did not write.

Usage: github_proof.py BASE_URL TOKEN. Prints one JSON object with what PyGithub got; fails loudly.
"""

import json
import os
import sys
from datetime import datetime, timedelta, timezone

for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
    os.environ.pop(name, None)

from github import Auth, Github, GithubException

base_url, token = sys.argv[1], sys.argv[2]
api = Github(base_url=base_url, auth=Auth.Token(token), per_page=7, retry=None)


def refused(call):
    """Status and message of the error that PyGithub makes of a refusal."""
    try:
        call()
    except GithubException as error:
        return [error.status, error.data.get("message") if error.data else None]
    raise SystemExit("this should have been refused")


repository = api.get_repo("parcel/tracking")
since = datetime.now(timezone.utc) - timedelta(days=365)
listed = list(repository.get_issues(state="all", since=since, sort="updated", direction="asc"))
issues = [issue for issue in listed if issue.pull_request is None]
updates = [issue.updated_at for issue in listed]

first = repository.get_issue(1)
comment = first.create_comment("from **PyGithub**")
first.add_to_labels("seen-by-pygithub")
first.add_to_labels("seen-by-pygithub")
again = repository.get_issue(1)
first.edit(state="closed")

stranger = Github(base_url=base_url, auth=Auth.Token("wrong"), retry=None)
print(
    json.dumps(
        {
            "listed": len(listed),
            "issues": len(issues),
            "in_order": updates == sorted(updates),
            "user": api.get_user().login,
            "title": first.title,
            "comment": comment.body,
            "comments": [c.body for c in first.get_comments(since=since)],
            "labels": [label.name for label in first.get_labels()],
            "updated_moved": again.updated_at >= first.created_at,
            "closed": repository.get_issue(1).state,
            "open": repository.get_issues(state="open").totalCount,
            "missing": refused(lambda: repository.get_issue(99999)),
            "deleted": refused(lambda: repository.get_issue(2)),
            "stranger": refused(lambda: stranger.get_repo("parcel/tracking")),
            "limit": api.get_rate_limit().rate.limit if hasattr(api.get_rate_limit(), "rate") else api.get_rate_limit().core.limit,
            "repositories": sorted(r.full_name for r in api.get_organization("parcel").get_repos()),
            "renamed": api.get_repo("parcel/old-name").full_name,
            "timeline": len(list(repository.get_issue(3).get_timeline())),
        }
    )
)
