package transfer

import (
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var unfinished = storage.NewTable[copyRecord]("storage_copy") // copyKey; of a store into which a copy is under way

const copyKey = "copy"

// copyRecord says how far a copy has come. Each of its transactions writes it too.
type copyRecord struct {
	// From names the source.
	From    string    `cbor:"1,keyasint"`
	BegunAt time.Time `cbor:"2,keyasint"`
	// After is the last key that was written. nil: none
	After []byte `cbor:"3,keyasint,omitempty"`
}

// ErrUnfinished says that a store holds a part of another one.
var ErrUnfinished = errors.New("a copy into this storage did not finish")

// Complete returns ErrUnfinished if the store is the target of a copy that has not finished: nothing else may use it.
func Complete(tx storage.Tx) error {
	rec, found, err := unfinished.Find(tx, copyKey)
	if err == nil && found {
		return fmt.Errorf("%w: run the same copy from %s again, which continues it, or empty this storage", ErrUnfinished, rec.From)
	}
	return err
}
