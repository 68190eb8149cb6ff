package keystore

import (
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// pair is a stored key pair.
type pair struct {
	id string
	record
}

// A part is what one path of the API is about: one pair or all of them.
type part func(tx storage.Tx) ([]pair, error)

// allPairs returns every pair in the order of their names.
func allPairs(tx storage.Tx) (list []pair, err error) {
	for e, err := range keyNames.Scan(tx, storage.Range{}) {
		if err != nil {
			return nil, err
		}
		rec, err := keyPairs.Get(tx, e.Value)
		if err != nil {
			return nil, err
		}
		list = append(list, pair{e.Value, rec})
	}
	return list, nil
}

// onePair returns the pair of an id that a path names, or 404.
func onePair(id string) part {
	return func(tx storage.Tx) ([]pair, error) {
		rec, err := storedPair(tx, id)
		return []pair{{id, rec}}, err
	}
}

func (s *Service) read(r *http.Request, of part) (list []pair, err error) {
	err = s.store.View(r.Context(), func(tx storage.Tx) error {
		list, err = of(tx)
		return err
	})
	return list, err
}

func answers(list []pair) []KeyPair {
	out := make([]KeyPair, len(list))
	for i, p := range list {
		out[i] = p.answer(p.id)
	}
	return out
}

// tagOf returns the entity tag of a part. It changes when a private key comes or goes, which no answer shows.
func tagOf(list []pair) string {
	private := make([]bool, len(list))
	for i, p := range list {
		private[i] = len(p.Private) > 0
	}
	return jsonapi.Tag([]any{answers(list), private}, 0)
}

// apply carries out a change, if the part of the request's path is still the one that its If-Match names. Tags are not
// computed in a transaction: it compares what is stored with what had the tag.
func (s *Service) apply(r *http.Request, of part, change func(tx storage.Tx) error) error {
	holds := jsonapi.Precondition(r)
	if holds == nil {
		return s.store.Update(r.Context(), change)
	}
	before, err := s.read(r, of)
	if err != nil {
		return err
	}
	if !holds(tagOf(before)) {
		return preconditionFailed()
	}
	return s.store.Update(r.Context(), func(tx storage.Tx) error {
		now, err := of(tx)
		if err != nil {
			return err
		}
		if !slices.EqualFunc(before, now, func(a, b pair) bool { return a.id == b.id && a.same(b.record) }) {
			return preconditionFailed()
		}
		return change(tx)
	})
}

func preconditionFailed() error {
	return &jsonapi.Error{Status: http.StatusPreconditionFailed, Message: "the certificates have changed since they were read"}
}
