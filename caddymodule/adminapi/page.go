package adminapi

import (
	"strconv"

	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Page is a part of a list.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // the value of the parameter after for the next page. Empty: this is the last one
}

// afterCursor returns the parameter after of the next page of a search. Empty: this is the last one
func afterCursor(c audit.Cursor) string {
	if len(c) == 0 {
		return ""
	}
	return c.String()
}

// pageSize reads the parameter limit: how many items a page has at most. Default: 100.
func pageSize(limit string) (int, error) {
	if limit == "" {
		return 100, nil
	}
	n, err := strconv.Atoi(limit)
	if err != nil || n < 1 || n > MaxPersons {
		return 0, badRequestf("limit is not between 1 and %d", MaxPersons)
	}
	return n, nil
}
