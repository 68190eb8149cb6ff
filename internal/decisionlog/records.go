package decisionlog

import (
	"github.com/gatehouse-id/gatehouse/internal/recentlog"
	"github.com/gatehouse-id/gatehouse/storage"
)

var kept = recentlog.Tables[Decision]{
	Slots: storage.NewTable[Decision]("decision_slot"),
	Next:  storage.NewTable[uint64]("decision_next"),
	Size:  slotCount, Kept: Kept,
}

// differing are those whose shadow rules say something else, so the newest are found without reading the others.
var differing = recentlog.Tables[Decision]{
	Slots: storage.NewTable[Decision]("decision_difference"),
	Next:  storage.NewTable[uint64]("decision_difference_next"),
	Size:  differingCount, Kept: Kept,
}
