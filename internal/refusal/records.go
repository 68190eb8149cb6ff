package refusal

import "github.com/gatehouse-id/gatehouse/storage"

// The ring of refusals. Slots are overwritten in order, so that strangers cannot fill a disk.
var (
	slots = storage.NewTable[Refusal]("refusal_slot") // number of the slot -> refusal
	nexts = storage.NewTable[uint64]("refusal_next")  // "" -> the number of the next refusal
)
