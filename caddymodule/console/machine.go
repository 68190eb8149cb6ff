package console

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/messages"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/setup"
	"github.com/gatehouse-id/gatehouse/identity/keypair"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/tally"
	"github.com/gatehouse-id/gatehouse/storage"
)

// MostWaiting is how far messages that wait are counted.
const MostWaiting = 1000

// Machine is how the servers, the disk and the queues are.
type Machine struct {
	Nodes []cluster.Info
	// Waiting are the messages that are not handed over yet, by kind (mail, sms, push). A kind that is not sent is not
	// there.
	Waiting map[string]int
	// Free is the space that the storage has left, in bytes. 0: the engine does not tell
	Free uint64
	// Certificates are those of Gatehouse and its providers.
	Certificates []keypair.Expiry
}

// kindsOfMessages are the kinds of Waiting, in the order in which they are shown.
var kindsOfMessages = []string{"mail", "sms", "push"}

// machineParts say how the servers are, and which certificates end.
func (c *Console) machineParts(v *frame.Visit) ([]page.ConsolePart, error) {
	part := page.ConsolePart{ID: "machine", Title: page.Say("console.machine.title")}
	m, err := c.Machine(v.Context())
	if err != nil {
		return nil, err
	}
	t := &page.Table{Label: page.Say("console.machine.nodes"), Columns: []string{"console.column.server", "console.column.version", "console.column.started", "console.column.answers", "console.column.write_delay", "console.column.state"}}
	for i := range m.Nodes {
		t.Rows = append(t.Rows, nodeRow(&m.Nodes[i]))
	}
	part.Table = t
	for _, kind := range kindsOfMessages {
		n, sent := m.Waiting[kind]
		if !sent {
			continue
		}
		cells := []page.Cell{{Name: strconv.Itoa(n), URL: messages.QueuePath(kind)}}
		if n >= MostWaiting {
			cells = []page.Cell{{Text: page.Say("console.count.more", "n", MostWaiting), Kind: "warn"}, {Text: page.Say("console.queue.title"), URL: messages.QueuePath(kind)}}
		}
		part.Facts = append(part.Facts, page.ConsoleFact{Label: "console.machine.waiting." + kind, Cells: cells})
	}
	if m.Free > 0 {
		part.Facts = append(part.Facts, page.ConsoleFact{Label: "console.machine.free", Cells: []page.Cell{{Name: humanize.IBytes(m.Free), URL: frame.Root + "/storage"}}})
	}
	out := []page.ConsolePart{part}
	if expiring, ok := setup.Expiring(v, m.Certificates, c.Setup); ok {
		out = append(out, expiring)
	}
	return out, nil
}

// nodeRow is a server that uses the storage.
func nodeRow(n *cluster.Info) page.TableRow {
	state := page.Cell{Text: page.Say("console.machine.up"), Kind: "good"}
	switch {
	case n.Problem != "":
		state = page.Cell{Text: page.Say("console.machine.problem"), Note: n.Problem, Kind: "bad"}
	case !n.Alive:
		state = page.Cell{Text: page.Say("console.machine.silent"), Kind: "bad"}
	}
	name := page.Cell{Name: n.Host, Note: n.ID}
	if n.This {
		name.Note, name.Hint = "", page.Say("console.machine.this")
	}
	return page.TableRow{Cells: []page.Cell{
		name,
		{Name: n.Version},
		{Text: page.Say("console.time", "time", n.Started)},
		{Text: page.Say("console.time", "time", n.Seen)},
		{Name: strconv.FormatInt(n.Lag, 10) + " ms"},
		state,
	}}
}

// latencyPart says how long sites took to decide, in the period of the visit.
func (c *Console) latencyPart(v *frame.Visit) (page.ConsolePart, error) {
	part := page.ConsolePart{ID: "latency", Title: page.Say("console.latency.title"), Text: page.Say("console.latency.text")}
	q := v.Period().Query(v.Now)
	q.Measure, q.By = tally.Decisions, tally.Latency
	var a tally.Answer
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		a, err = tally.Read(tx, q)
		return err
	})
	if err != nil {
		return part, err
	}
	counts := make([]int64, len(tally.LatencyBounds))
	var total int64
	for _, s := range a.Series {
		if i := slices.Index(tally.LatencyBounds, s.Name); i >= 0 {
			counts[i] += s.Total
			total += s.Total
		}
	}
	if total == 0 {
		part.Text = page.Say("console.latency.none")
		return part, nil
	}
	t := &page.Table{Label: part.Title, Columns: []string{"console.column.latency", "console.column.decisions", "console.column.share"}}
	var upTo int64
	for i, n := range counts {
		upTo += n
		if n > 0 {
			t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{latencyCell(i), {Name: strconv.FormatInt(n, 10)}, {Name: share(upTo, total)}}})
		}
	}
	slow := within(counts, total)
	part.Charts = []page.Chart{{Label: page.Say("console.latency.chart"), Total: slow, Counts: counts, Most: strconv.FormatInt(slices.Max(counts), 10), Low: latencyCell(0).Name, High: latencyCell(len(counts) - 1).Name}}
	part.Table, part.Fold = t, page.Say("console.chart.table")
	return part, nil
}

// latencyCell names a bound.
func latencyCell(i int) page.Cell {
	if i == len(tally.LatencyBounds)-1 {
		return page.Cell{Name: "> " + tally.LatencyBounds[i-1] + " ms"}
	}
	return page.Cell{Name: "≤ " + tally.LatencyBounds[i] + " ms"}
}

// within is the bound within which 99 of 100 decisions were made.
func within(counts []int64, total int64) string {
	var upTo int64
	for i, n := range counts {
		if upTo += n; upTo*100 >= total*99 {
			return latencyCell(i).Name
		}
	}
	return ""
}

// share is a part of a total in percent, never 100 unless it is all.
func share(part, total int64) string {
	tenths := part * 1000 / total
	return strings.TrimSuffix(strconv.FormatInt(tenths/10, 10)+"."+strconv.FormatInt(tenths%10, 10), ".0") + " %"
}
