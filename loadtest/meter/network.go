package meter

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// traffic counts the bytes of a TCP socket since it opened.
type traffic struct {
	pid   int
	bytes int64
}

var (
	owner  = regexp.MustCompile(`pid=(\d+)`)
	volume = regexp.MustCompile(`\bbytes_(sent|received):(\d+)`)
)

// readSockets returns the traffic of every TCP socket of this user, by its two ends. It runs ss, because /proc
// does not have them. Connections that begin and end between two samples are not counted;
// those of Kafka and TigerBeetle last longer.
func readSockets() (map[[2]string]traffic, error) {
	text, err := exec.Command("ss", "-tinpHO").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot count network bytes: ss -tinpHO (Debian: apt-get install iproute2): %w", err)
	}
	sockets := map[[2]string]traffic{}

	for line := range strings.Lines(string(text)) {
		fields, pid := strings.Fields(line), owner.FindStringSubmatch(line)
		if len(fields) < 5 || pid == nil {
			continue
		}
		t := traffic{}
		t.pid, _ = strconv.Atoi(pid[1])

		for _, match := range volume.FindAllStringSubmatch(line, -1) {
			n, _ := strconv.ParseInt(match[2], 10, 64)
			t.bytes += n
		}
		sockets[[2]string{fields[3], fields[4]}] = t
	}

	return sockets, nil
}

// networkBytes returns what each process sent and received between two readings.
func networkBytes(before, after map[[2]string]traffic) map[int]int64 {
	bytes := map[int]int64{}
	for s, t := range after {
		if was := before[s]; was.pid == t.pid && was.bytes <= t.bytes {
			t.bytes -= was.bytes
		}
		bytes[t.pid] += t.bytes
	}

	return bytes
}
