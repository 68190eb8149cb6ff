package layout

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// undos has what the last act of each session could be undone by. The key is the id of the session.
var undos = storage.NewTable[undoRecord]("console_undo")

type undoRecord struct {
	Path   string              `cbor:"1,keyasint"` // of the screen
	Done   string              `cbor:"2,keyasint"` // name of the act
	Act    string              `cbor:"3,keyasint"` // name of the act that undoes it
	Values map[string][]string `cbor:"4,keyasint,omitempty"`
	At     time.Time           `cbor:"5,keyasint"`
}
