"""Calls a server with the client that was generated from its OpenAPI document."""

import sys

from tidelock_client import AuthenticatedClient
from tidelock_client.api.commits import commits_commit
from tidelock_client.api.quotas import quotas_show
from tidelock_client.api.streams import streams_show
from tidelock_client.models import CommitRequest

address, token = sys.argv[1:]
client = AuthenticatedClient(base_url=address, token=token, raise_on_unexpected_status=True)
parts = {
    "appends": [{"stream": "order-7", "expected": "none", "events": [{"type": "placed", "data": {"units": 2}}]}],
    "quotas": [{"key": "orders", "take": {"limit": 3, "units": 2}}],
}
done = commits_commit.sync(client=client, body=CommitRequest.from_dict(parts))
assert done.appends[0].version == 1 and not done.replayed, done
assert streams_show.sync("order-7", client=client).version == 1
assert quotas_show.sync("orders", client=client, limit=3).left == 1
refused = commits_commit.sync(client=client, body=CommitRequest.from_dict(parts))
assert refused.code == "commit-refused", refused
print("a client that was generated from the document made a commit, and was refused another")
