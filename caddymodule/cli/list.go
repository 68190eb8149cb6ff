package cli

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
)

// query returns the parameters that have a value.
func query(values map[string]string) url.Values {
	q := url.Values{}
	for name, value := range values {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// setTimes adds the flags --since and --until to a query. Empty: there is no such bound
func setTimes(q url.Values, since, until string, now time.Time) error {
	for name, text := range map[string]string{"since": since, "until": until} {
		if text == "" {
			continue
		}
		at, err := parseTime(text, now)
		if err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
		q.Set(name, at.Format(time.RFC3339Nano))
	}
	return nil
}

// parseTime reads a time as people write it, in the local zone.
func parseTime(text string, now time.Time) (time.Time, error) {
	year, month, date := now.Date()
	switch text {
	case "now":
		return now, nil
	case "today":
		return time.Date(year, month, date, 0, 0, 0, 0, now.Location()), nil
	case "yesterday":
		return time.Date(year, month, date-1, 0, 0, 0, 0, now.Location()), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if ago, err := caddy.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write 2026-01-31, 2026-01-31T12:00:00Z, today, yesterday, 24h or 7d", text)
}

// readList reads the pages of a list of the server until it has most items, or all if most is 0. more: there are others
func readList[T any](cmd *cobra.Command, path string, q url.Values, most int) (all []T, more bool, err error) {
	if most < 0 {
		return nil, false, fmt.Errorf("--limit %d is negative", most)
	}
	all = []T{}
	for {
		size := adminapi.MaxPersons
		if most > 0 {
			size = min(size, most-len(all))
		}
		q.Set("limit", strconv.Itoa(size))
		var page adminapi.Page[T]
		if err := call(cmd, path+"?"+q.Encode(), nil, &page); err != nil {
			return nil, false, err
		}
		all = append(all, page.Items...)
		if most > 0 && len(all) >= most {
			return all[:most], len(all) > most || page.Next != "", nil
		}
		if page.Next == "" {
			return all, false, nil
		}
		q.Set("after", page.Next)
	}
}

// printList reads a list and prints it as a table, or as JSON.
func printList[T any](cmd *cobra.Command, path string, q url.Values, most int, noun string, header []string,
	cells func(*T) []string,
) error {
	all, more, err := readList[T](cmd, path, q, most)
	if err != nil {
		return err
	}
	t := tableOf(noun, header, all, cells)
	if more {
		t.more = "There are more: use --limit."
	}
	return printResult(cmd, all, t.lines()...)
}

// showTable is printList for a list that the server answers in one piece.
func showTable[T any](cmd *cobra.Command, path string, in any, noun string, header []string, cells func(*T) []string) error {
	return show(cmd, path, in, func(all *[]T) []string { return tableOf(noun, header, *all, cells).lines() })
}

func tableOf[T any](noun string, header []string, all []T, cells func(*T) []string) *table {
	t := &table{noun: noun, header: header}
	for i := range all {
		t.rows = append(t.rows, cells(&all[i]))
	}
	return t
}

func limitFlag(cmd *cobra.Command, to *int) {
	cmd.Flags().IntVar(to, "limit", 0, "Print at most so many (default: all)")
}
