"""Drives the simulator with the `azure-devops` SDK, a client we did not write.

Usage: sdk_proof.py BASE_URL TOKEN. Prints one JSON object with what the SDK got; fails loudly.
"""

import json
import os
import sys
import tempfile

# The SDK caches what it learns about a host; a port may come back with another server behind it.
os.environ["HOME"] = tempfile.mkdtemp(prefix="azure-devops-cache-")
os.environ["AZURE_DEVOPS_CACHE_DIR"] = os.environ["HOME"]
for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
    os.environ.pop(name, None)

from azure.devops.connection import Connection
from azure.devops.exceptions import AzureDevOpsServiceError
from azure.devops.v7_1.work_item_tracking.models import (
    CommentCreate,
    JsonPatchOperation,
    TeamContext,
    Wiql,
    WorkItemBatchGetRequest,
)
from msrest.authentication import BasicAuthentication

base_url, token = sys.argv[1], sys.argv[2]
client = Connection(
    base_url=base_url, creds=BasicAuthentication("", token)
).clients_v7_1.get_work_item_tracking_client()

OPEN_BUGS = (
    "SELECT [System.Id], [System.Title] FROM WorkItems WHERE [System.TeamProject] = @project "
    "AND [System.WorkItemType] = 'Bug' AND [System.State] <> 'Closed' "
    "AND [System.ChangedDate] >= '2000-01-01T00:00:00.000Z' "
    "ORDER BY [System.ChangedDate] ASC, [System.Id] ASC"
)
team = TeamContext(project="Parcel", team="Parcel Team")


def patch(op, path, value=None):
    return JsonPatchOperation(op=op, path=path, value=value)


def refused(call):
    """The message of the error that the SDK makes of a refusal."""
    try:
        call()
    except AzureDevOpsServiceError as error:
        return {"type": error.type_key, "message": error.message}
    raise SystemExit("this should have been refused")


found = client.query_by_wiql(Wiql(query=OPEN_BUGS), team_context=team, time_precision=True, top=200)
ids = [row.id for row in found.work_items]
without_precision = refused(lambda: client.query_by_wiql(Wiql(query=OPEN_BUGS), team_context=team))

fields = ["System.Id", "System.Title", "System.State", "System.AssignedTo", "System.Tags"]
request = WorkItemBatchGetRequest(ids=ids + [1], fields=fields, error_policy="omit")
batch = client.get_work_items_batch(request, project="Parcel")
strict = WorkItemBatchGetRequest(ids=[1], fields=fields)
missing = refused(lambda: client.get_work_items_batch(strict, project="Parcel"))
too_many = refused(
    lambda: client.get_work_items_batch(WorkItemBatchGetRequest(ids=list(range(1, 202))))
)
listed = client.get_work_items(ids[:2], fields=["System.Id", "System.Rev"], error_policy="omit")

first = ids[0]
before = client.get_work_item(first)
comment = client.add_comment(CommentCreate(text="<b>from the SDK</b>"), "Parcel", first)
markdown = client.add_work_item_comment(CommentCreate(text="**again**"), "Parcel", first, "markdown")
comments = client.get_comments("Parcel", first)
after_comments = client.get_work_item(first)

updated = client.update_work_item(
    [
        patch("test", "/rev", after_comments.rev),
        patch("add", "/fields/System.Tags", "seen-by-sdk"),
        patch("add", "/fields/System.History", "patched"),
    ],
    first,
    project="Parcel",
)
stale = refused(
    lambda: client.update_work_item([patch("test", "/rev", before.rev)], first, project="Parcel")
)
validated = client.update_work_item(
    [patch("add", "/fields/System.Title", "never stored")], first, validate_only=True
)
linked = client.update_work_item(
    [
        patch(
            "add",
            "/relations/-",
            {"rel": "System.LinkTypes.Related", "url": f"{base_url}/_apis/wit/workItems/{ids[1]}"},
        )
    ],
    first,
)
created = client.create_work_item(
    [patch("add", "/fields/System.Title", "Made by the SDK")], "Parcel", "Task"
)
saved = client.query_by_id("253d8eb4-0bd1-4c92-adc9-d305c8b99b92", team_context=team)
known_fields = client.get_work_item_fields(project="Parcel")

print(
    json.dumps(
        {
            "ids": ids,
            "query_type": found.query_type,
            "columns": [column.reference_name for column in found.columns],
            "as_of": found.as_of.isoformat(),
            "without_precision": without_precision,
            "titles": [item and item.fields["System.Title"] for item in batch],
            "assigned": [
                item.fields["System.AssignedTo"]["displayName"]
                for item in batch
                if item and "System.AssignedTo" in item.fields
            ],
            "missing": missing,
            "too_many": too_many,
            "listed": [item.rev for item in listed],
            "comment": [comment.text, markdown.text, comments.total_count],
            "revisions": [before.rev, after_comments.rev, updated.rev, validated.rev, linked.rev],
            "tags": updated.fields["System.Tags"],
            "stale": stale,
            "relations": len(linked.relations),
            "created": [created.rev, created.fields["System.WorkItemType"]],
            "saved": len(saved.work_items),
            "has_title_field": any(f.reference_name == "System.Title" for f in known_fields),
        }
    )
)
