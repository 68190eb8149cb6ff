package console

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/messages"
	"github.com/gatehouse-id/gatehouse/admin/console/providers"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// MostWaiting is the number up to which waiting messages are counted.
const MostWaiting = 1000

// Machine is the state of the servers, the disk and the queues.
type Machine struct {
	Nodes []cluster.Info
	// Waiting are the messages that are not handed over yet, by kind (mail, sms, push). A kind that is not sent is not
	// there.
	Waiting map[string]int
	// Free is the space that the storage has left, in bytes. 0: the engine does not tell
	Free uint64
	// Certificates are those of Gatehouse and its providers.
	Certificates []keystore.Expiry
}

// kindsOfMessages are the kinds of Waiting, in the order in which they are shown.
var kindsOfMessages = []string{"mail", "sms", "push"}

// machineParts say how the servers are, and which certificates end.
func (c *Console) machineParts(v *layout.Visit) ([]web.ConsolePart, error) {
	part := web.ConsolePart{ID: "machine", Title: web.Say("console.machine.title")}
	m, err := c.Machine(v.Context())
	if err != nil {
		return nil, err
	}
	t := &web.Table{
		Label: web.Say("console.machine.nodes"),
		Columns: []string{
			"console.column.server", "console.column.version", "console.column.started", "console.column.answers",
			"console.column.write_delay", "console.column.state",
		},
	}
	for i := range m.Nodes {
		t.Rows = append(t.Rows, nodeRow(&m.Nodes[i]))
	}
	part.Table = t
	for _, kind := range kindsOfMessages {
		n, sent := m.Waiting[kind]
		if !sent {
			continue
		}
		cells := []web.Cell{{Name: strconv.Itoa(n), URL: messages.QueuePath(kind)}}
		if n >= MostWaiting {
			cells = []web.Cell{
				{Text: web.Say("console.count.more", "n", MostWaiting), Kind: "warn"},
				{Text: web.Say("console.queue.title"), URL: messages.QueuePath(kind)},
			}
		}
		part.Facts = append(part.Facts, web.ConsoleFact{Label: "console.machine.waiting." + kind, Cells: cells})
	}
	if m.Free > 0 {
		part.Facts = append(part.Facts,
			web.ConsoleFact{Label: "console.machine.free", Cells: []web.Cell{{Name: humanize.IBytes(m.Free), URL: layout.Root + "/storage"}}})
	}
	out := []web.ConsolePart{part}
	if expiring, ok := providers.Expiring(v, m.Certificates, c.Setup); ok {
		out = append(out, expiring)
	}
	return out, nil
}

// nodeRow is a server that uses the storage.
func nodeRow(n *cluster.Info) web.TableRow {
	state := web.Cell{Text: web.Say("console.machine.up"), Kind: "good"}
	switch {
	case n.Problem != "":
		state = web.Cell{Text: web.Say("console.machine.problem"), Hint: web.Said(n.Problem), Kind: "bad"}
	case !n.Alive:
		state = web.Cell{Text: web.Say("console.machine.silent"), Kind: "bad"}
	}
	name := web.Cell{Name: n.Host, Note: n.ID}
	if n.This {
		name.Note, name.Hint = "", web.Say("console.machine.this")
	}
	return web.TableRow{Cells: []web.Cell{
		name,
		{Name: n.Version},
		{Text: web.Say("console.time", "time", n.Started)},
		{Text: web.Say("console.time", "time", n.Seen)},
		{Name: strconv.FormatInt(n.Lag, 10) + " ms"},
		state,
	}}
}

// latencyPart says how long sites took to decide, in the period of the visit.
func (c *Console) latencyPart(v *layout.Visit) (web.ConsolePart, error) {
	part := web.ConsolePart{ID: "latency", Title: web.Say("console.latency.title"), Text: web.Say("console.latency.text")}
	q := v.Period().Query(v.Now)
	q.Measure, q.By = stats.Decisions, stats.Latency
	var a stats.Answer
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		a, err = stats.Read(tx, q)
		return err
	})
	if err != nil {
		return part, err
	}
	counts := make([]int64, len(stats.LatencyBounds))
	var total int64
	for _, s := range a.Series {
		if i := slices.Index(stats.LatencyBounds, s.Name); i >= 0 {
			counts[i] += s.Total
			total += s.Total
		}
	}
	if total == 0 {
		part.Text = web.Say("console.latency.none")
		return part, nil
	}
	t := &web.Table{Label: part.Title, Columns: []string{"console.column.latency", "console.column.decisions", "console.column.share"}}
	var upTo int64
	for i, n := range counts {
		upTo += n
		if n > 0 {
			t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{latencyCell(i), {Name: strconv.FormatInt(n, 10)}, {Name: share(upTo, total)}}})
		}
	}
	slow := within(counts, total)
	part.Charts = []web.Chart{{
		Label: web.Say("console.latency.chart"), Total: slow, Counts: counts,
		Most: strconv.FormatInt(slices.Max(counts), 10), Low: latencyCell(0).Name, High: latencyCell(len(counts) - 1).Name,
	}}
	part.Table, part.Fold = t, web.Say("console.chart.table")
	return part, nil
}

// latencyCell names a bound.
func latencyCell(i int) web.Cell {
	if i == len(stats.LatencyBounds)-1 {
		return web.Cell{Name: "> " + stats.LatencyBounds[i-1] + " ms"}
	}
	return web.Cell{Name: "≤ " + stats.LatencyBounds[i] + " ms"}
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
