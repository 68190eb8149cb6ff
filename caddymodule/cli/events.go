package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

func eventCommands() *cobra.Command {
	return group("events", "Lists the events and checks that none was changed", listEventsCommand(), listCallsCommand(), verifyEventsCommand())
}

// eventSearch is the selection by the flags of "events list".
type eventSearch struct {
	since, until, person, client, actor, address, ref, partition string
	types                                                        []string
	tokens, follow                                               bool
	limit                                                        int
}

func listEventsCommand() *cobra.Command {
	var s eventSearch
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Lists what happened: sign-ins, changes, tokens",
		Long: `Lists events, newest first. --since and --until take a time (2026-01-31T12:00:00Z), a day (2026-01-31), today,
yesterday, or how long ago (24h, 7d). --type takes event types or their beginnings: login
for every sign-in, person.PersonCreatedEvent for one kind. With --follow the command
prints what happens from now on, until it is interrupted.`,
		Example: `  caddy gatehouse events list --since today --type login
  caddy gatehouse events list --person ada@example.com --limit 20
  caddy gatehouse events list --follow --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := s.query(time.Now())
			if err != nil {
				return err
			}
			if s.follow {
				return followEvents(cmd, q)
			}
			return listEvents(cmd, q, s.limit)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.since, "since", "", "Only events from this time on")
	f.StringVar(&s.until, "until", "", "Only events before this time")
	f.StringSliceVar(&s.types, "type", nil, "Only events whose type begins so")
	f.StringVar(&s.person, "person", "", "Only events about this person: a username or id")
	f.StringVar(&s.client, "client", "", "Only events of this client")
	f.StringVar(&s.actor, "actor", "", "Only events that this person or API client caused: an id")
	f.StringVar(&s.address, "ip", "", "Only events from this IP address")
	f.StringVar(&s.ref, "ref", "", "Only events with the reference of a refusal")
	f.StringVar(&s.partition, "partition", "", "The partition (default: default)")
	f.BoolVar(&s.tokens, "tokens", false, "The tokens of clients alone, which are kept apart")
	f.BoolVar(&s.follow, "follow", false, "Print what happens from now on")
	f.IntVar(&s.limit, "limit", 100, "Print at most so many; 0 prints all")
	completeFlag(cmd, "person", completeAnyPerson)
	completeFlag(cmd, "client", completeClients)
	return cmd
}

func (s *eventSearch) query(now time.Time) (url.Values, error) {
	if err := checkLimit(s.limit); err != nil {
		return nil, err
	}
	q := url.Values{"type": s.types}
	for name, v := range map[string]string{
		"person": s.person, "client": s.client, "actor": s.actor, "address": s.address,
		"ref": s.ref, "partition": s.partition,
	} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if s.tokens {
		q.Set("tokens", "true")
	}
	for name, text := range map[string]string{"since": s.since, "until": s.until} {
		if text == "" {
			continue
		}
		at, err := parseTime(text, now)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
		q.Set(name, at.Format(time.RFC3339Nano))
	}
	return q, nil
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

// readAll reads the pages of a list until it has most items, or all if most is 0. more: there are others
func readAll[T any](most int, read func(limit int, behind audit.Cursor) ([]T, audit.Cursor, error)) (all []T, more bool, err error) {
	all = []T{}
	var behind audit.Cursor
	for {
		size := adminapi.MaxPersons
		if most > 0 {
			size = min(size, most-len(all))
		}
		items, next, err := read(size, behind)
		if err != nil {
			return nil, false, err
		}
		all = append(all, items...)
		if len(next) == 0 {
			return all, false, nil
		}
		if most > 0 && len(all) >= most {
			return all, true, nil
		}
		behind = next
	}
}

// pageOf is a query with the size of a page and where it begins.
func pageOf(q url.Values, limit int, behind audit.Cursor) string {
	q.Set("limit", strconv.Itoa(limit))
	if len(behind) > 0 {
		q.Set("behind", behind.String())
	}
	return q.Encode()
}

func listEvents(cmd *cobra.Command, q url.Values, most int) error {
	all, more, err := readAll(most, func(limit int, behind audit.Cursor) ([]adminapi.EventInfo, audit.Cursor, error) {
		var page adminapi.EventsPage
		err := call(cmd, "/events?"+pageOf(q, limit, behind), nil, &page)
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	t := table{noun: "event", header: []string{"TIME", "EVENT", "PERSON", "BY", "CLIENT", "ADDRESS", "REASON"}}
	for i := range all {
		t.rows = append(t.rows, eventCells(&all[i]))
	}
	if more {
		t.more = "There are more: use --limit."
	}
	return printResult(cmd, all, t.lines()...)
}

// eventCells is the event as a line of a table.
func eventCells(e *adminapi.EventInfo) []string {
	cells := []string{
		time.UnixMilli(e.Occurred).Format("2006-01-02 15:04:05"), e.EventName, cmp.Or(e.Username, e.PersonID), e.EventAgentUser,
		e.ClientID, e.ClientIP, e.Reason,
	}
	return printed(cells)
}

// printed makes cells safe to print, and shows those that are empty.
func printed(cells []string) []string {
	for i, c := range cells {
		cells[i] = cmp.Or(strings.Map(printable, c), "-")
	}
	return cells
}

// printable replaces what would break a line or steer a terminal.
func printable(c rune) rune {
	if !unicode.IsPrint(c) {
		return '?'
	}
	return c
}

// followInterval is the interval at which following asks for new events.
const followInterval = time.Second

// followEvents prints events as they happen, until the command is interrupted.
func followEvents(cmd *cobra.Command, q url.Values) error {
	asJSON, err := cmd.Flags().GetBool("json")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	q.Set("follow", "true")
	q.Set("limit", strconv.Itoa(adminapi.MaxPersons))
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		var page adminapi.EventsPage
		if err := call(cmd, "/events?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		for i := range page.Items {
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(page.Items[i])
			} else {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(eventCells(&page.Items[i]), "  "))
			}
			if err != nil {
				return err
			}
		}
		q.Set("behind", page.Next.String())
		if len(page.Items) == adminapi.MaxPersons {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func verifyEventsCommand() *cobra.Command {
	var anchors []string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Checks that no event was changed, removed or inserted",
		Long: `Checks the chains of blocks in which the events are sealed: one for each partition and each server
that writes to the storage, and others for the tokens of clients alone. It says up to where the events
are sealed, and finds what was changed, removed, exchanged or inserted before. The chains of a
partition name each other's ends, so what was cut off from the end of one of them is found as well.
The logs of calls (/calls) are checked with the events that confirm them. The exit status is 0 only when all is sound.

An attacker who can write all of the storage can also rebuild all chains. Keep the heads that are
printed in another place, and give them as --anchor: then that is found too.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer adminapi.VerifyAnswer
			if err := call(cmd, "/events/verify?"+url.Values{"anchor": anchors}.Encode(), nil, &answer); err != nil {
				return err
			}
			if err := printResult(cmd, answer, verifyLines(answer)...); err != nil {
				return err
			}
			if !answer.Sound {
				return errors.New("the events are not sound")
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&anchors, "anchor", nil, "A head that was printed before, as `chain@block:hash`; may be given several times")
	return cmd
}

func verifyLines(answer adminapi.VerifyAnswer) []string {
	if len(answer.Chains) == 0 {
		return []string{"there are no events"}
	}
	var lines []string
	for _, v := range answer.Chains {
		lines = append(lines, fmt.Sprintf("%s: %s events in %s blocks", v.Chain, humanize.Comma(int64(v.Events)), //nolint:gosec // no chain is that long
			humanize.Comma(int64(v.Blocks))))
		if v.From > 1 {
			lines = append(lines, fmt.Sprintf("  begins      with event %d, those before were collected by %s", v.From,
				v.CutAt.Format(time.RFC3339)))
		}
		if v.Blocks > 0 {
			lines = append(lines, fmt.Sprintf("  sealed      through event %d, at %s", v.Sealed, v.SealedAt.Format(time.RFC3339)),
				"  head        "+v.Chain+"@"+v.Head)
		}
		if v.Unsealed > 0 {
			lines = append(lines, fmt.Sprintf("  not sealed  %d events behind", v.Unsealed))
		}
		if v.Node != "" {
			lines = append(lines, "  written by  "+strings.Map(printable, v.Node))
		}
		for _, p := range v.Problems {
			lines = append(lines, "  WRONG       "+p)
		}
	}
	if answer.Sound {
		lines = append(lines, "sound")
	}
	return lines
}
