package token

import (
	"github.com/gatehouse-id/gatehouse/internal/places"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Earlier lists the sessions that grants of an earlier version were given in by their clients.
var Earlier = places.Source{Name: "grants", Prefix: grants.Key(""), Note: func(tx storage.Tx, raw storage.Record) error {
	g, err := grants.Decode(raw.Value)
	if err != nil {
		return err
	}
	return places.Note(tx, places.Application, g.ClientID, g.SessionID, g.ExpiresAt)
}}
