"""Drives the simulator with `jira` from PyPI, a client we did not write.

Usage: jira_proof.py BASE_URL TOKEN cloud|server. Prints one JSON object with what the client got.
"""

import json
import os
import sys

for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"):
    os.environ.pop(name, None)
os.environ["NO_PROXY"] = "*"

from jira import JIRA
from jira.exceptions import JIRAError

base_url, token, kind = sys.argv[1:4]
is_cloud = kind == "cloud"
credential = {"basic_auth": ("bot@contoso.example", token)} if is_cloud else {"token_auth": token}
client = JIRA(server=base_url, max_retries=0, **credential)


def refused(call):
    """Status and text of the error that the client makes of a refusal."""
    try:
        call()
    except JIRAError as error:
        return [error.status_code, error.text]
    raise SystemExit("this should have been refused")


def search(query, **options):
    find = client.enhanced_search_issues if is_cloud else client.search_issues
    return find(query, **options)


ALL = "project = PARCEL AND updated >= '2000-01-01 00:00' ORDER BY updated ASC, key ASC"
everything = search(ALL, maxResults=False, fields="summary,status,updated,labels,description")
some = search("project = PARCEL AND statusCategory != Done", maxResults=5, fields="summary")
bad_field = refused(lambda: search("sevrity = 1"))
bad_project = refused(lambda: search("project = NOWHERE"))
missing = refused(lambda: client.issue("PARCEL-9999"))

first = client.issue("PARCEL-1")
comment = client.add_comment(first, "from the *client*")
comments = [one.body for one in client.comments(first)]
first.update(update={"labels": [{"add": "seen-by-client"}]})
spaced = refused(lambda: first.update(update={"labels": [{"add": "two words"}]}))
first.update(fields={"summary": "Changed by the client"})
again = client.issue("PARCEL-1")
created = client.create_issue(
    project="PARCEL", summary="Made by the client", issuetype={"name": "Bug"}, description="h1. Hi"
)
created_key = created.key
created.delete()
gone = refused(lambda: client.issue(created_key))

print(
    json.dumps(
        {
            "deployment": client.server_info()["deploymentType"],
            "me": client.myself()["displayName"],
            "keys": [issue.key for issue in everything],
            "updated": [issue.fields.updated for issue in everything],
            "categories": sorted({issue.fields.status.statusCategory.key for issue in everything}),
            "descriptions": [type(issue.fields.description).__name__ for issue in everything],
            "some": len(some),
            "bad_field": bad_field,
            "bad_project": bad_project,
            "missing": missing,
            "comment": comment.body,
            "comments": comments,
            "spaced": spaced,
            "labels": again.fields.labels,
            "summary": again.fields.summary,
            "moved": again.fields.updated > first.fields.created,
            "components": [component.name for component in again.fields.components],
            "priorities": [priority.name for priority in client.priorities()],
            "project": client.project("PARCEL").name,
            "gone": gone[0],
        }
    )
)
