"""What is asked of a run's Ray: its start, its nodes and its placement groups."""

from launcher.core.model.actions import Answer, Result
from launcher.core.model.run import Run, Slot
from launcher.errors import RemoteError
from launcher.setup import ray
from launcher.setup.ports import Ports
from launcher.transport.agent import decode, drivers
from launcher.transport.agent.addresses import Sites
from launcher.transport.agent.answers import done
from launcher.transport.agent.client import Json, Site

ASK_S = 10.0
RESERVE_S = 20.0


class Heads:
    """Speaks to the agents of heads, and through them to their supervisors."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites

    def ports(self, site: Site) -> Ports:
        """Return the ports that the agent of a unit took; RemoteError where it has no agent.

        Who began the agent knows them: a head is not asked again for each node that joins it.
        """
        block = self._sites.block(site)
        if block is None:
            told = site.ask({"op": "hello"}, timeout=ASK_S)
            if "block" not in told:
                message = f"the {site.unit.value} on `{site.name}` has no agent"
                raise RemoteError(message, node=site.name, stage="ports")
            block = self._sites.note_block(site, told)
        return site.blocks.ports(block)

    def start(self, run: Run, cluster: int) -> Answer:
        """Start the Ray head of a cluster under its agent."""
        site = self._sites.head(run)
        at = self._at(site)
        question = {
            "op": "ray",
            "generation": cluster,
            "argv": ray.head_argv(at),
            "client": at.ports.client,
            "env": ray.environment(head=True),
            "supervisor": f"{at.address}:{at.ports.gcs}",
        }
        return done(site.ask(question, timeout=ASK_S))

    def join(self, run: Run, slot: Slot) -> Answer:
        """Start the raylet of a slot under its node's agent."""
        site, head = self._sites.slot(run, slot.node), self._sites.head(run)
        index, ports = self._sites.environment(run).index, self.ports(head)
        member, node = index.by_name[slot.member], index.nodes[slot.node]
        address = f"{head.access.address}:{ports.gcs}"
        question = {
            "op": "ray",
            "generation": slot.generation,
            "member": slot.member,
            "argv": ray.slot_argv(
                self._at(site),
                address,
                node,
                ray.labels(run.fleet.levels, node, slot, member),
                driven=run.group(member.group).driver is not None,
                groups=1 + len(run.task.colocated_groups(member.group)),
            ),
            "env": ray.environment(head=False),
            "head": [head.access.address, ports.heartbeat],
        }
        return done(site.ask(question, timeout=ASK_S))

    def _at(self, site: Site) -> ray.At:
        return ray.At(address=site.access.address, ports=self.ports(site), temp_dir=site.layout.ray, shared=site.shared)

    def reserve(self, run: Run, key: str) -> Answer:
        """Ask for the placement group of a slice: one bundle a slot, pinned to it. A driver makes its own."""
        if key in drivers.open_slices(run):
            return Answer(result=Result.DONE)
        index = self._sites.environment(run).index
        part, members = index.slices[key], index.by_slice[key]
        bundle = ray.bundle(run.group(part.group))
        question = {
            "op": "reserve",
            "slice": key,
            "bundles": [bundle for _ in members],
            "slots": [member.slot for member in members],
            "within": ray.within(run, part),
        }
        return done(self.ask(run, question, timeout=RESERVE_S))

    def unreserve(self, run: Run, key: str) -> Answer:
        """Remove the placement group of a slice, where we made one."""
        if key in drivers.open_slices(run):
            return Answer(result=Result.DONE)
        return done(self.ask(run, {"op": "unreserve", "slice": key}, timeout=RESERVE_S))

    def verify(self, run: Run, key: str) -> Answer:
        """Return where Ray, asked afresh, has the bundles of a slice."""
        told = self.ask(run, {"op": "verify", "timeout": ASK_S}, timeout=ASK_S + 2)
        if not told["ok"]:
            return done(told)
        drivers.add_groups(run, told)
        row = next((row for row in told["groups"] if row["slice"] == key), None)
        if row is None or row["state"] == "REMOVED":
            return Answer(result=Result.FAILED, message=f"ray has no group for slice `{key}`")
        return Answer(result=Result.DONE, bundles=decode.bundles(row["bundles"]))

    def ask(self, run: Run, question: Json, timeout: float) -> Json:
        """Return what the supervisor of the run says."""
        wrapped = {"op": "supervisor", "question": question, "timeout": timeout}
        told = self._sites.head(run).ask(wrapped, timeout=timeout + 2)
        return {"ok": False, "message": "the head has no agent"} if told.get("absent") else told
