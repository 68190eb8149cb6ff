package refusal

import (
	"github.com/gatehouse-id/gatehouse/internal/ring"
	"github.com/gatehouse-id/gatehouse/storage"
)

var kept = ring.Tables[Refusal]{
	Slots: storage.NewTable[Refusal]("refusal_slot"),
	Next:  storage.NewTable[uint64]("refusal_next"),
	Kept:  Kept,
}
