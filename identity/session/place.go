package session

import (
	"github.com/gatehouse-id/gatehouse/internal/sessionindex"
	"github.com/gatehouse-id/gatehouse/storage"
)

// place lists a session by where it is used from. before is what it was until now.
func (s *Service) place(tx storage.Tx, id string, before, rec *Record) error {
	ends := s.Collect(*rec)
	was, is := before.places(), rec.places()
	for kind, value := range is {
		if was[kind] != value {
			if err := sessionindex.Forget(tx, kind, was[kind], id); err != nil {
				return err
			}
		}
		if err := sessionindex.Note(tx, kind, value, id, ends); err != nil {
			return err
		}
	}
	return nil
}

// leave takes a session out of the lists.
func leave(tx storage.Tx, id string, rec *Record) error {
	for kind, value := range rec.places() {
		if err := sessionindex.Forget(tx, kind, value, id); err != nil {
			return err
		}
	}
	return nil
}

func (r *Record) places() map[sessionindex.Kind]string {
	return map[sessionindex.Kind]string{sessionindex.Address: r.Address, sessionindex.Device: sessionindex.DeviceOf(r.Agent)}
}
