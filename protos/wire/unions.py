"""Every message that may cross the wire, by direction."""

from protos.wire import bulk, live, session

ToWorker = (
    session.Hello
    | live.FrameHead
    | live.FrameBody
    | live.Cancel
    | session.Ping
    | session.Pong
    | bulk.Have
    | bulk.BulkBatch
    | session.Goodbye
)
ToAgent = (
    session.Welcome
    | live.Result
    | live.Reject
    | bulk.Ack
    | session.Ping
    | session.Pong
    | bulk.Need
    | session.Credit
    | session.Error
)
