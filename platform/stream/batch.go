package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the client keeps of each record and of each of its headers, beside their bytes. A
// batch of empty records takes far more memory than it has bytes.
const (
	recordBytes = 200
	headerBytes = 40
)

// batchesPerSecond is how many of the largest compressed batches a client unpacks in a
// second, and at once. The client holds one response of each broker, and in 4 MiB a
// response can hold ten thousand batches that are each just below the bound.
const batchesPerSecond = 8

// errTooFast passes: the client asks for the batch again.
var errTooFast = errors.New("too much was unpacked in this second: the batch is fetched again")

// unpacker decompresses batches that anybody may have written. It is safe for concurrent use.
type unpacker struct {
	bytesMax  int
	packedMax int // of a compressed batch
	zstd      func() (*zstd.Decoder, error)

	paced bool
	mu    sync.Mutex
	left  int // bytes that may be unpacked at the instant at
	at    time.Time
}

func newUnpacker(bytesMax int, paced bool) *unpacker {
	decoder := sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(bytesMax))) //nolint:gosec // positive
	})

	return &unpacker{bytesMax: bytesMax, packedMax: math.MaxInt, zstd: decoder, paced: paced,
		left: batchesPerSecond * bytesMax, at: time.Now()}
}

// of bounds what is unpacked to what may be written to a topic.
func (u *unpacker) of(topic string) *unpacker {
	if slices.ContainsFunc(Topics, func(t Topic) bool { return t.Name == topic && t.Small }) {
		u.packedMax = BatchBytesMax
	}

	return u
}

// Reads is an option for a client that reads only one topic.
func (c Config) Reads(topic string) kgo.Opt {
	return kgo.WithDecompressor(newUnpacker(c.BatchMax(), true).of(topic))
}

// allow returns whether bytes may be unpacked now.
func (u *unpacker) allow(bytes int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	most, now := batchesPerSecond*u.bytesMax, time.Now()
	u.left = min(most, u.left+int(float64(most)*min(1, now.Sub(u.at).Seconds())))

	u.at = now
	if bytes > u.left {
		return false
	}
	u.left -= bytes

	return true
}

// Decompress implements kgo.Decompressor. A batch that would take more memory than the bound
// is kgo.ErrMaxDecompress.
func (u *unpacker) Decompress(source []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return source, nil
	}

	if len(source) > u.packedMax {
		return nil, kgo.ErrMaxDecompress
	}

	records, err := u.unpack(source, codec)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = kgo.ErrMaxDecompress
	}

	if err != nil {
		return nil, err
	}
	count, headers, _ := walk(records)

	taken := len(records) + count*recordBytes + headers*headerBytes
	if taken > u.bytesMax {
		return nil, kgo.ErrMaxDecompress
	}

	if u.paced && !u.allow(taken) {
		return nil, errTooFast
	}

	return records, nil
}

func (u *unpacker) unpack(source []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	switch codec {
	case kgo.CodecGzip:
		reader, err := gzip.NewReader(bytes.NewReader(source))
		if err != nil {
			return nil, err
		}

		return u.read(reader)
	case kgo.CodecSnappy:
		return u.snappy(source)
	case kgo.CodecLz4:
		return u.read(lz4.NewReader(bytes.NewReader(source)))
	case kgo.CodecZstd:
		decoder, err := u.zstd()
		if err != nil {
			return nil, err
		}

		return decoder.DecodeAll(source, nil)
	default:
		return nil, fmt.Errorf("compression %d is not known", codec)
	}
}

func (u *unpacker) read(from io.Reader) ([]byte, error) {
	records, err := io.ReadAll(io.LimitReader(from, int64(u.bytesMax)+1))
	if err == nil && len(records) > u.bytesMax {
		err = kgo.ErrMaxDecompress
	}

	return records, err
}

// xerial is how Java's clients begin snappy: eight bytes and two versions, then blocks, each
// behind its length.
var xerial = []byte("\x82SNAPPY\x00")

const xerialHeaderBytes = 16

func (u *unpacker) snappy(source []byte) (records []byte, err error) {
	if len(source) < xerialHeaderBytes || !bytes.HasPrefix(source, xerial) {
		return u.snappyBlock(nil, source)
	}

	for source = source[xerialHeaderBytes:]; len(source) > 0; {
		if len(source) < 4 {
			return nil, io.ErrUnexpectedEOF
		}

		length := binary.BigEndian.Uint32(source)
		if source = source[4:]; uint64(length) > uint64(len(source)) {
			return nil, io.ErrUnexpectedEOF
		}

		if records, err = u.snappyBlock(records, source[:length]); err != nil {
			return nil, err
		}
		source = source[length:]
	}

	return records, nil
}

// snappyBlock appends what a block holds. The block says its length before it is unpacked.
func (u *unpacker) snappyBlock(records, block []byte) ([]byte, error) {
	length, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}

	if length > u.bytesMax-len(records) {
		return nil, kgo.ErrMaxDecompress
	}
	unpacked, err := s2.Decode(nil, block)

	return append(records, unpacked...), err
}

// walk counts the records in a batch, which is unpacked, and their headers. The error says
// which record cannot be decoded, or has not the offset that follows from its place.
func walk(records []byte) (count, headers int, err error) {
	for len(records) > 0 {
		length, used := kbin.Varint(records)
		if used <= 0 || length < 0 || int(length) > len(records)-used {
			return count, headers, fmt.Errorf("record %d: its length does not fit", count)
		}
		r := kbin.Reader{Src: records[used : used+int(length)]}
		records = records[used+int(length):]
		r.Int8() // attributes
		r.Varlong()
		delta := r.Varint()
		r.VarintBytes()
		r.VarintBytes()
		n := r.VarintArrayLen()

		headers += int(max(n, 0))
		for range n {
			r.VarintBytes()
			r.VarintBytes()
		}

		if !r.Ok() || len(r.Src) > 0 || n < 0 {
			return count, headers, fmt.Errorf("record %d: its %d bytes are not a record", count, length)
		}

		if err == nil && int(delta) != count {
			err = fmt.Errorf("record %d: it claims place %d of the batch", count, delta)
		}
		count++
	}

	return count, headers, err
}

// CheckBatch returns an error for a record batch that a broker should not take from a client,
// because consumers cannot read it: what Apache Kafka checks, and the bound on the memory
// that the batch takes once it is unpacked. It wraps the kerr.Error to answer with.
func CheckBatch(raw []byte, bytesMax int) error {
	var batch kmsg.RecordBatch
	switch err := batch.ReadFrom(raw); {
	case err != nil:
		return fmt.Errorf("%w: %d bytes are not a record batch", kerr.CorruptMessage, len(raw))
	case batch.Magic != 2:
		return fmt.Errorf("%w: the magic byte is %d: it must be 2", kerr.CorruptMessage, batch.Magic)
	case int(batch.Length) != len(raw)-batchLengthEnd:
		return fmt.Errorf("%w: the batch says %d bytes and has %d", kerr.CorruptMessage, batch.Length,
			len(raw)-batchLengthEnd)
	case uint32(batch.CRC) != crc32.Checksum(raw[batchCRCEnd:], castagnoli): //nolint:gosec // the same bits
		return fmt.Errorf("%w: the checksum is wrong", kerr.CorruptMessage)
	case batch.NumRecords < 1 || batch.LastOffsetDelta != batch.NumRecords-1:
		return fmt.Errorf("%w: %d records cannot end at place %d", kerr.InvalidRecord, batch.NumRecords,
			batch.LastOffsetDelta)
	}

	records, err := newUnpacker(bytesMax, false).Decompress(batch.Records,
		kgo.CompressionCodecType(batch.Attributes&compressionBits))
	if err != nil {
		return fmt.Errorf("%w: %w", kerr.InvalidRecord, err)
	}

	count, _, err := walk(records)
	if err == nil && count != int(batch.NumRecords) {
		err = fmt.Errorf("the batch claims %d records and has %d", batch.NumRecords, count)
	}

	if err != nil {
		return fmt.Errorf("%w: %w", kerr.InvalidRecord, err)
	}

	return nil
}

// Where the parts of a batch are: offset 8, length 4, leader epoch 4, magic 1, CRC 4.
const (
	batchLengthEnd  = 12
	batchCRCEnd     = 21
	compressionBits = 7
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
