# Where it has to walk back, it walks to the round's start.
import copy
import time
import uuid

from ctxlab import align_to_round_start, align_to_turn_start


def fork_session(parent, at_index):
    cut = align_to_turn_start(parent["messages"], at_index)
    if cut != at_index:
        cut = align_to_round_start(parent["messages"], at_index)
    child = copy.deepcopy({"messages": parent["messages"][:cut]})
    child["id"] = f"{parent['id']}.{uuid.uuid4()}"
    child["parent_id"] = parent["id"]
    child["forked_at"] = cut
    child["created_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return child
