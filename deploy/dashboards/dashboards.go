// Package dashboards describes the Grafana dashboards: the question of each panel, and its query.
// `make dashboards` writes the JSON files that Grafana reads. They are in the repository, and a
// test keeps them current.
package dashboards

import (
	"bytes"
	"cmp"
	"encoding/json"
)

// Dashboard is one page. Its first row answers its main question at a glance.
type Dashboard struct {
	UID, Title, Description string
	Rows                    []Row
}

// Row is a group of panels under a heading, in lines of 24 columns.
type Row struct {
	Title  string
	Height int
	Panels []Panel
}

// Panel asks one question.
type Panel struct {
	Title       string // the question
	Description string // how to read the answer, and what to do about a bad one
	Kind        Kind
	Width       int
	Unit        string // one of Grafana's
	Queries     []Query
	// Thresholds color a stat and are lines in a time series, in ascending order. FloorColor is
	// the color below the first, green if empty.
	Thresholds []Threshold
	FloorColor string
	Words      map[string]Word // by value: what is shown instead
	NoData     string          // shown in grey without data, "no data" if empty
	Stack      bool
	Log        bool // logarithmic axis
	Max        float64
}

func (p Panel) wide(columns int) Panel {
	p.Width = columns
	return p
}

// Kind is how an answer is drawn.
type Kind string

// The kinds in use.
const (
	Stat   Kind = "stat"
	Series Kind = "timeseries"
	Table  Kind = "table"
	States Kind = "state-timeline"
)

// Query is one expression and the name of its series.
type Query struct{ Expr, Legend string }

// Threshold is where a color begins.
type Threshold struct {
	From  float64
	Color string
}

// Word is a text in a color.
type Word struct{ Text, Color string }

const (
	green  = "green"
	orange = "orange"
	red    = "red"
	grey   = "#52545c"
)

type object = map[string]any

// datasource is that of grafana/provisioning.
var datasource = object{"type": "prometheus", "uid": "prometheus"}

// JSON returns the dashboard as Grafana reads it.
func (d Dashboard) JSON() []byte {
	var panels []object
	id, y := 0, 0

	add := func(panel object, x, width, height int) {
		id++
		panel["id"], panel["gridPos"] = id, object{"x": x, "y": y, "w": width, "h": height}
		panels = append(panels, panel)
	}
	for _, row := range d.Rows {
		add(object{"type": "row", "title": row.Title, "collapsed": false, "panels": []object{}}, 0, 24, 1)
		y++

		x := 0
		for _, p := range row.Panels {
			if x+p.Width > 24 {
				x, y = 0, y+row.Height
			}
			add(p.json(), x, p.Width, row.Height)
			x += p.Width
		}
		y += row.Height
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")

	if err := encoder.Encode(object{
		"uid": d.UID, "title": d.Title, "description": d.Description, "tags": []string{"liquida"},
		"schemaVersion": 42, "version": 1, "editable": true, "graphTooltip": 1, // one crosshair for all panels
		"refresh": "5s", "time": object{"from": "now-15m", "to": "now"}, "timezone": "browser",
		"links": []object{{"type": "dashboards", "title": "Liquida", "icon": "", "tooltip": "",
			"tags": []string{"liquida"}, "asDropdown": false, "keepTime": true}},
		"panels": panels, "templating": object{"list": []object{}}, "annotations": object{"list": annotations()},
	}); err != nil {
		panic(err) // only maps, texts and numbers
	}

	return text.Bytes()
}

// Annotation marks on every panel when something happened.
type Annotation struct {
	Name, Expr, Text, Color string
	// AtValue says that the value of Expr is the time of the mark, in Unix milliseconds. Otherwise a mark
	// lasts for as long as the value is above 0.
	AtValue bool
}

// Annotations mark what happened to processes. Grafana asks for about one value per point of the window: every 5 s
// over an hour, every minute or more over a day. So each expression looks at all that was recorded since the
// previous value. Otherwise a restart between two values would leave no mark. TestAnnotations shows that.
var Annotations = []Annotation{
	{Name: "Started", Expr: `1000 * max_over_time(process_start_time_seconds[$__interval])`, AtValue: true,
		Text: "{{job}} {{instance}} started", Color: "blue"},
	// Two cases: a scrape fails, or the container is gone with its address, so that nobody scrapes it any more.
	{Name: "Away", Expr: `count_over_time(up[$__interval]) unless up or min_over_time(up[$__interval]) == bool 0`,
		Text: "{{job}} {{instance}} does not answer", Color: red},
	{Name: "Rebalance", Expr: `sum(increase(pix_rebalances_total{kind=~"revoked|lost"}[$__rate_interval])) > 0`,
		Text: "partitions change hands", Color: orange},
}

func annotations() (list []object) {
	for _, a := range Annotations {
		list = append(list, object{"name": a.Name, "datasource": datasource, "enable": true, "iconColor": a.Color,
			// The step is at least two scrapes, so that every window holds one.
			"target":      object{"refId": "Anno", "expr": a.Expr, "interval": "5s"},
			"titleFormat": a.Name, "textFormat": a.Text, "useValueForTime": a.AtValue})
	}

	return list
}

// options are how Grafana shows each kind.
var options = map[Kind]object{
	Stat: {"colorMode": "background", "graphMode": "none", "textMode": "value", "justifyMode": "center",
		"orientation":   "auto",
		"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}},
	Series: {"legend": legend, "tooltip": object{"mode": "multi", "sort": "desc"}},
	States: {"mergeValues": true, "showValue": "never", "legend": legend,
		"tooltip": object{"mode": "single", "sort": "none"}},
	Table: {"showHeader": true},
}

var legend = object{"displayMode": "list", "placement": "bottom", "showLegend": true}

// ofTable shows the labels; critical sorts before warning.
var ofTable = []object{
	{"id": "sortBy", "options": object{"sort": []object{{"field": "severity"}}}},
	{"id": "organize", "options": object{
		"excludeByName": object{"Time": true, "job": true, "need": true, "ispb": true, "reason": true},
		"indexByName":   object{"alertname": 0, "about": 1, "Value": 2, "alertstate": 3, "severity": 4},
		"renameByName":  object{"alertname": "alert", "Value": "of them", "alertstate": "state"},
	}},
}

func (p Panel) json() object {
	var targets []object

	for i, q := range p.Queries {
		target := object{"refId": string(rune('A' + i)), "datasource": datasource, "expr": q.Expr,
			"legendFormat": q.Legend}
		if p.Kind == Stat || p.Kind == Table { // the value now, and one evaluation however long the shown time
			target["instant"] = true
		}

		if p.Kind == Table {
			target["format"] = "table"
		}
		targets = append(targets, target)
	}

	panel := object{"type": string(p.Kind), "title": p.Title, "description": p.Description, "datasource": datasource,
		"targets": targets, "fieldConfig": object{"defaults": p.defaults(), "overrides": []object{}},
		"options": options[p.Kind]}
	if p.Kind == Table {
		panel["transformations"] = ofTable
	}

	return panel
}

// defaults are unit, colors, words and axis.
func (p Panel) defaults() object {
	steps := []object{{"color": cmp.Or(p.FloorColor, green), "value": nil}}
	for _, t := range p.Thresholds {
		steps = append(steps, object{"color": t.Color, "value": t.From})
	}

	defaults := object{"unit": p.Unit, "color": object{"mode": "thresholds"},
		"thresholds": object{"mode": "absolute", "steps": steps}}
	if p.Max != 0 {
		defaults["max"] = p.Max
	}
	var mappings []object

	if len(p.Words) > 0 {
		values := object{}
		for value, word := range p.Words {
			values[value] = object{"text": word.Text, "color": word.Color, "index": 0}
		}
		mappings = append(mappings, object{"type": "value", "options": values})
	}

	if p.Kind == Stat {
		// Without this, Grafana shows missing data in the color of the lowest threshold: green although
		// the state is unknown, or red although there is only no load.
		missing := object{"text": cmp.Or(p.NoData, "no data"), "color": grey, "index": 1}
		mappings = append(mappings,
			object{"type": "special", "options": object{"match": "null+nan", "result": missing}})
	}

	if len(mappings) > 0 {
		defaults["mappings"] = mappings
	}

	if p.Kind == Series {
		p.axis(defaults)
	}

	return defaults
}

func (p Panel) axis(defaults object) {
	custom := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false,
		"stacking": object{"mode": "none"}, "scaleDistribution": object{"type": "linear"},
		"thresholdsStyle": object{"mode": "off"}}
	if len(p.Thresholds) > 0 {
		custom["thresholdsStyle"] = object{"mode": "dashed"}
	}

	if p.Stack {
		custom["stacking"], custom["fillOpacity"] = object{"mode": "normal"}, 40
	}

	if p.Log {
		custom["scaleDistribution"] = object{"type": "log", "log": 10}
	} else {
		custom["axisSoftMin"] = 0

		if p.Unit != "currencyBRL" && p.Unit != "s" { // balances, differences and clock skews may be negative
			defaults["min"] = 0
		}
	}
	defaults["color"], defaults["custom"] = object{"mode": "palette-classic"}, custom
}
