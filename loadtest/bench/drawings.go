package bench

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/plot"
)

// Draw writes the drawings of FINDINGS.md as SVG into a folder, if one is given: medians of payments that settle.
func (r *Result) Draw(folder string) error {
	if folder == "" {
		return nil
	}
	var throughput, costs, hops []plot.Bar

	for _, row := range r.Rows {
		if len(row.Verdicts) == 0 || row.Part == gatePart || row.Part == doorPart { // those of the gate are short
			continue
		}

		if has(cpuFigures)(row) {
			costs = append(costs, row.bar(cpuFigures, columns...))
		}

		if has(hopMeanFigures)(row) {
			hops = append(hops, row.bar(hopMeanFigures, meter.HopNames...))
		}

		if row.median(perSecond) > 0 && row.median(offered) == 0 { // not at a fixed rate
			throughput = append(throughput, row.bar(perSecond.group, perSecond.name))
		}
	}
	err := os.MkdirAll(folder, 0o755)

	for name, drawing := range map[string]*plot.Drawing{
		"throughput": plot.Bars("As fast as it goes", "/s", false, []string{"payments"}, throughput),
		"budget":     plot.Bars("Where the time of a payment goes in the engine", "ms", true, meter.HopNames, hops),
		"cpu":        plot.Bars("CPU of a payment", "µs", false, columns, costs),
	} {
		if drawing != nil {
			err = errors.Join(err, drawing.WriteFile(filepath.Join(folder, name+".svg")))
		}
	}

	return err
}

// bar holds the medians of figures of a group.
func (r Row) bar(group string, names ...string) plot.Bar {
	bar := plot.Bar{Name: r.Name}
	for _, name := range names {
		bar.Values = append(bar.Values, r.median(figure{group, name}))
	}

	return bar
}
