package storage

import (
	"slices"
	"sync"
)

// TableInfo describes a table to checks of whole stores.
type TableInfo struct {
	Name string
	// Recode decodes a stored value as a record of the table and encodes the record again: what the record type has lost
	// is missing in the result. A value that cannot be read is ErrCorrupt.
	Recode func(raw []byte) ([]byte, error)
}

// Count counts the records of the table, up to most. Those that can be collected count as long as they are there.
func (t TableInfo) Count(tx Tx, most int) (n int, err error) {
	for _, err := range tx.Scan(Range{Prefix: []byte(t.Name + "/"), Limit: most}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

var registry struct {
	mu     sync.Mutex // guards tables
	tables []TableInfo
}

func register(t TableInfo) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	registry.tables = append(registry.tables, t)
}

// Tables returns every table that NewTable has named in this process, for checks of whole stores. A name occurs more
// than once if several record types share a table.
func Tables() []TableInfo {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return slices.Clone(registry.tables)
}
