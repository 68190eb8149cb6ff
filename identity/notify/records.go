package notify

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	webhooks = storage.NewTable[outbox.Record[audit.Ref]]("webhook") // webhook, when it is due, event -> where the event is
	mails    = storage.NewTable[outbox.Record[[]byte]]("mail")       // lane, when it is due, id -> the sealed notice
	texts    = storage.NewTable[outbox.Record[[]byte]]("sms")        // lane, when it is due, id -> the sealed text message
	pushes   = storage.NewTable[outbox.Record[[]byte]]("push")       // lane, when it is due, id -> the sealed prompt
)
