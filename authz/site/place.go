package site

import (
	"github.com/gatehouse-id/gatehouse/internal/places"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Earlier lists the sessions that the site sessions of an earlier version belong to by their sites.
var Earlier = places.Source{Name: "sites", Prefix: sessions.Key(""), Note: func(tx storage.Tx, raw storage.Record) error {
	rec, err := sessions.Decode(raw.Value)
	if err != nil {
		return err
	}
	return places.Note(tx, places.Site, rec.Origin, rec.SessionID, rec.ExpiresAt)
}}
