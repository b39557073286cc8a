package link

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// frameBytesMax bounds a frame of the Kafka protocol. No message here is as large.
const frameBytesMax = 128 << 20

// rewriteAddresses returns the two directions of a connection to Kafka. It changes only the
// responses that name the broker's address: they name the link's.
func rewriteAddresses(requests, responses io.Reader, address netip.AddrPort) (io.Reader, io.Reader) {
	i := &addressRewriter{host: address.Addr().String(), port: int32(address.Port())}
	return &frames{from: requests, change: i.request}, &frames{from: responses, change: i.response}
}

// addressRewriter remembers the requests whose responses hold addresses.
type addressRewriter struct {
	host    string
	port    int32
	pending sync.Map // by correlation id: a request
}

type request struct{ key, version int16 }

// request remembers a request if its response will hold addresses.
func (i *addressRewriter) request(frame []byte) ([]byte, error) {
	if len(frame) < 8 {
		return nil, fmt.Errorf("a request of %d bytes", len(frame))
	}

	r := request{int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))}
	switch kmsg.Key(r.key) {
	case kmsg.Metadata, kmsg.FindCoordinator: // nobody here asks to describe the cluster
		i.pending.Store(binary.BigEndian.Uint32(frame[4:]), r)
	}

	return frame, nil
}

// response puts the link's address into a response that holds addresses.
func (i *addressRewriter) response(frame []byte) ([]byte, error) {
	if len(frame) < 4 {
		return nil, fmt.Errorf("a response of %d bytes", len(frame))
	}

	asked, holdsAddresses := i.pending.LoadAndDelete(binary.BigEndian.Uint32(frame))
	if !holdsAddresses {
		return frame, nil
	}
	r := asked.(request) //nolint:forcetypeassert // nothing else is stored
	response := kmsg.ResponseForKey(r.key)
	response.SetVersion(r.version)

	header, body := frame[:4], frame[4:]
	if response.IsFlexible() { // then the header ends with tagged fields
		reader := kbin.Reader{Src: body}
		kmsg.SkipTags(&reader)

		if err := reader.Complete(); err != nil {
			return nil, err
		}
		header, body = frame[:len(frame)-len(reader.Src)], reader.Src
	}

	if err := response.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("cannot read a response to %s: %w", kmsg.NameForKey(r.key), err)
	}

	switch response := response.(type) {
	case *kmsg.MetadataResponse:
		for b := range response.Brokers {
			response.Brokers[b].Host, response.Brokers[b].Port = i.host, i.port
		}
	case *kmsg.FindCoordinatorResponse:
		response.Host, response.Port = i.host, i.port
		for c := range response.Coordinators {
			response.Coordinators[c].Host, response.Coordinators[c].Port = i.host, i.port
		}
	}

	return response.AppendTo(append([]byte(nil), header...)), nil
}

// frames reads frames and passes them on, changed.
type frames struct {
	from   io.Reader
	change func(frame []byte) ([]byte, error)
	ready  []byte
}

func (f *frames) Read(p []byte) (int, error) {
	if len(f.ready) == 0 {
		var size [4]byte
		if _, err := io.ReadFull(f.from, size[:]); err != nil {
			return 0, err
		}

		length := binary.BigEndian.Uint32(size[:])
		if length > frameBytesMax {
			return 0, fmt.Errorf("a frame of %d bytes: the limit is %d", length, frameBytesMax)
		}

		frame := make([]byte, length)
		if _, err := io.ReadFull(f.from, frame); err != nil {
			return 0, err
		}

		changed, err := f.change(frame)
		if err != nil {
			return 0, err
		}
		f.ready = append(binary.BigEndian.AppendUint32(nil, uint32(len(changed))), changed...)
	}
	n := copy(p, f.ready)
	f.ready = f.ready[n:]

	return n, nil
}
