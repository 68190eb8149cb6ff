package session

import (
	"github.com/gatehouse-id/gatehouse/internal/places"
	"github.com/gatehouse-id/gatehouse/storage"
)

// place lists a session by where it is used from. before is what it was until now.
func (s *Service) place(tx storage.Tx, id string, before, rec *Record) error {
	ends := s.Collect(*rec)
	was, is := before.places(), rec.places()
	for kind, value := range is {
		if was[kind] != value {
			if err := places.Forget(tx, kind, was[kind], id); err != nil {
				return err
			}
		}
		if err := places.Note(tx, kind, value, id, ends); err != nil {
			return err
		}
	}
	return nil
}

// leave takes a session out of the lists.
func leave(tx storage.Tx, id string, rec *Record) error {
	for kind, value := range rec.places() {
		if err := places.Forget(tx, kind, value, id); err != nil {
			return err
		}
	}
	return nil
}

func (r *Record) places() map[places.Kind]string {
	return map[places.Kind]string{places.Address: r.Address, places.Device: places.DeviceOf(r.Agent)}
}
