package personindex

import (
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Linked counts the identities of a provider that sign people in here, up to most.
func Linked(tx storage.Tx, provider string, most int) (n int, err error) {
	for _, err := range tx.Scan(storage.Range{Prefix: person.Identities.Key(string(storage.Prefix(provider))), Limit: most}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
