"""Statuses against the contract, and through the wire."""

from __future__ import annotations

import pickle

from a11_grpc import Code, Reason, Status, StatusError
from a11_grpc._proto import status_pb2
from a11_grpc.wire.status import MAX_MESSAGE_BYTES, status_from_proto, status_to_proto


def test_every_reason_of_the_contract_is_known_here() -> None:
    contract = {name.removeprefix("REASON_") for name, _ in status_pb2.Reason.items()}
    assert contract == {reason.value for reason in Reason}


def test_a_status_survives_the_wire() -> None:
    def check(status: Status) -> None:
        assert status_from_proto(status_to_proto(status)) == status

    check(Status())
    check(Status.of(Reason.UNKNOWN_ACTION, 'no action named "x"'))
    check(Status(Code.NOT_FOUND, Reason.HANDLER_FAILED, "é", ('{"a":1}',)))
    unknown = status_pb2.Status(code=99, message="x", reason=status_pb2.Reason.ValueType(9999))
    assert status_from_proto(unknown) == Status(Code.UNKNOWN, Reason.UNSPECIFIED, "x")


def test_a_long_message_is_cut_at_a_character_with_a_notice() -> None:
    message = status_to_proto(Status(Code.INTERNAL, message="é" * 50_000)).message
    assert len(message.encode()) <= MAX_MESSAGE_BYTES
    assert message.endswith("100000 bytes in all]")
    # What is no text at all does not get in the way either.
    assert status_to_proto(Status(Code.INTERNAL, message="\ud800")).message == "?"


def test_an_error_says_its_status_and_survives_pickling() -> None:
    error = StatusError(Code.NOT_FOUND, "no such order", reason=Reason.HANDLER_FAILED)
    assert str(error) == "NOT_FOUND: no such order"
    again = pickle.loads(pickle.dumps(error))
    assert again.status == error.status
