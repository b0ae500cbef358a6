"""Writes a comment with the SDK of its tracker, a client we did not write.

Usage: commenting.py ado|github|cloud|server BASE_URL TOKEN ITEM TEXT
"""

import os
import sys
import tempfile

for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
    os.environ.pop(name, None)

kind, base_url, token, item, text = sys.argv[1:6]
if kind == "ado":
    # The SDK caches what it learns about a host; a port may come back with another server behind it.
    os.environ["HOME"] = tempfile.mkdtemp(prefix="azure-devops-cache-")
    os.environ["AZURE_DEVOPS_CACHE_DIR"] = os.environ["HOME"]
    from azure.devops.connection import Connection
    from azure.devops.v7_1.work_item_tracking.models import CommentCreate
    from msrest.authentication import BasicAuthentication

    connection = Connection(base_url=base_url, creds=BasicAuthentication("", token))
    client = connection.clients_v7_1.get_work_item_tracking_client()
    client.add_comment(CommentCreate(text=text), "Parcel", int(item))
elif kind == "github":
    from github import Auth, Github

    api = Github(base_url=base_url, auth=Auth.Token(token), retry=None)
    api.get_repo("parcel/tracking").get_issue(int(item)).create_comment(text)
else:
    from jira import JIRA

    credential = {"token_auth": token}
    if kind == "cloud":
        credential = {"basic_auth": ("bot@contoso.example", token)}
    client = JIRA(server=base_url, max_retries=0, **credential)
    client.add_comment(client.issue(item), text)
