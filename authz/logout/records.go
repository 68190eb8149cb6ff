package logout

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package. The names are those of authz, from which the package came, since they are on
// disk.
var (
	visits  = storage.NewTable[visitRecord]("authz_visit") // person, session, client
	logouts = storage.NewTable[outbox.Record[logoutRecord]]("authz_logout_queue")
)

// visitRecord says that a client that is notified of logouts knows a session.
type visitRecord struct {
	At time.Time `cbor:"1,keyasint"`
}

// logoutRecord is a logout token that is to be sent to the client of its lane.
type logoutRecord struct {
	Person  string `cbor:"1,keyasint"`
	Session string `cbor:"2,keyasint"`
}
