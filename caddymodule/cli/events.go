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

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
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
			header := []string{"TIME", "EVENT", "PERSON", "BY", "CLIENT", "ADDRESS", "REASON"}
			return printList(cmd, "/events", q, s.limit, "event", header, eventCells)
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
	q := query(map[string]string{
		"person": s.person, "client": s.client, "actor": s.actor, "address": s.address, "ref": s.ref, "partition": s.partition,
	})
	q["type"] = s.types
	if s.tokens {
		q.Set("tokens", "true")
	}
	return q, setTimes(q, s.since, s.until, now)
}

// eventCells is the event as a line of a table.
func eventCells(e *adminapi.EventInfo) []string {
	return []string{
		time.UnixMilli(e.Occurred).Format("2006-01-02 15:04:05"), e.EventName, cmp.Or(e.Username, e.PersonID), e.EventAgentUser,
		e.ClientID, e.ClientIP, e.Reason,
	}
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
		var page adminapi.Page[adminapi.EventInfo]
		if err := call(cmd, "/events?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		for i := range page.Items {
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(page.Items[i])
			} else {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(printed(eventCells(&page.Items[i])), "  "))
			}
			if err != nil {
				return err
			}
		}
		q.Set("after", page.Next)
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
