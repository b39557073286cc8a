package stream

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/kit/hostile"
)

// compressed returns what each codec of Kafka's makes of data.
func compressed(t testing.TB, data []byte) map[kgo.CompressionCodecType][]byte {
	t.Helper()
	all := map[kgo.CompressionCodecType][]byte{}

	for _, codec := range []kgo.CompressionCodec{kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(),
		kgo.ZstdCompression()} {
		compressor, err := kgo.DefaultCompressor(codec)
		if err != nil {
			t.Fatal(err)
		}
		packed, used := compressor.Compress(new(bytes.Buffer), data)
		all[used] = bytes.Clone(packed)
	}

	if len(all) != 4 {
		t.Fatalf("%d codecs", len(all))
	}
	// Snappy as Java's clients write it.
	java := append(append([]byte{}, xerial...), 0, 0, 0, 1, 0, 0, 0, 1)

	half := len(data) / 2
	for _, part := range [][]byte{data[:half], data[half:]} {
		compressor, _ := kgo.DefaultCompressor(kgo.SnappyCompression())
		block, _ := compressor.Compress(new(bytes.Buffer), part)
		java = append(append(java, byte(len(block)>>24), byte(len(block)>>16), byte(len(block)>>8),
			byte(len(block))), block...)
	}
	all[javaSnappy] = java

	return all
}

const javaSnappy = kgo.CompressionCodecType(127)

func codecOf(c kgo.CompressionCodecType) kgo.CompressionCodecType {
	if c == javaSnappy {
		return kgo.CodecSnappy
	}

	return c
}

func TestWhatIsUnpackedIsBounded(t *testing.T) {
	const most = 1 << 20
	u := newUnpacker(most, false)

	var orders []byte
	for i := range int32(1000) {
		orders = append(orders, hostile.Record(i, bytes.Repeat([]byte("order"), 100))...)
	}

	for codec, packed := range compressed(t, orders) {
		if got, err := u.Decompress(packed, codecOf(codec)); err != nil || !bytes.Equal(got, orders) {
			t.Errorf("codec %d: %d bytes, %v", codec, len(got), err)
		}
	}

	for codec, packed := range compressed(t, make([]byte, 2*most)) {
		if _, err := u.Decompress(packed, codecOf(codec)); !errors.Is(err, kgo.ErrMaxDecompress) {
			t.Errorf("codec %d: twice the bound: %v", codec, err)
		}
	}
	// Small as bytes, big as records.
	var empty []byte
	for i := range int32(most / recordBytes) {
		empty = append(empty, hostile.Record(i, nil)...)
	}
	headers := hostile.Record(0, nil)
	// without its length and its number of headers
	headers = kbin.AppendVarint(headers[1:len(headers)-1], most/headerBytes)
	headers = append(headers, make([]byte, 2*most/headerBytes)...) // a key and a value of no bytes

	headers = append(kbin.AppendVarint(nil, int32(len(headers))), headers...)
	for what, records := range map[string][]byte{"empty records": empty, "empty headers": headers} {
		for codec, packed := range compressed(t, records) {
			if _, err := u.Decompress(packed, codecOf(codec)); len(records) > most/10 ||
				!errors.Is(err, kgo.ErrMaxDecompress) {
				t.Errorf("codec %d: %d bytes of %s: %v", codec, len(records), what, err)
			}
		}
	}
}

// Many batches below the bound are unpacked one after the other, not all at once.
func TestWhatIsUnpackedInASecondIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1 << 20
		u := newUnpacker(most, true)
		packed := compressed(t, hostile.Record(0, make([]byte, most/2)))[kgo.CodecZstd]

		unpack := func() (n int) {
			for range 1000 {
				switch _, err := u.Decompress(packed, kgo.CodecZstd); {
				case err == nil:
					n++
				case !errors.Is(err, errTooFast) || errors.Is(err, kgo.ErrMaxDecompress):
					t.Fatal(err)
				}
			}

			return n
		}
		if n := unpack(); n < batchesPerSecond || n > 2*batchesPerSecond {
			t.Errorf("%d half batches at once", n)
		}
		time.Sleep(time.Second)

		if n := unpack(); n < batchesPerSecond || n > 2*batchesPerSecond {
			t.Errorf("%d half batches a second later", n)
		}
	})
}

// Whoever may write to a topic chooses these bytes.
func FuzzUnpack(f *testing.F) {
	for codec, packed := range compressed(f,
		append(hostile.Record(0, []byte("one")), hostile.Record(1, make([]byte, 1000))...)) {
		f.Add(packed, byte(codecOf(codec)))
		f.Add(packed[:len(packed)/2], byte(codecOf(codec)))
	}

	for codec, packed := range compressed(f, make([]byte, 1<<20)) {
		f.Add(packed, byte(codecOf(codec)))
	}
	const most = 64 << 10
	u := newUnpacker(most, false)
	f.Fuzz(func(t *testing.T, packed []byte, codec byte) {
		if len(packed) > most {
			return
		}

		unpacked, err := u.Decompress(packed, kgo.CompressionCodecType(1+codec%4))
		if err == nil && len(unpacked) > most || err != nil && unpacked != nil {
			t.Fatalf("%d bytes, %v", len(unpacked), err)
		}
	})
}

// What CheckBatch accepts, every client can read; what it refuses, Look names or the client can read.
func FuzzBatch(f *testing.F) {
	bomb, err := hostile.Bomb(0, 1<<20, kgo.CodecZstd)
	if err != nil {
		f.Fatal(err)
	}

	for _, batch := range []*hostile.Batch{hostile.New(0, []byte("one"), []byte("two")), hostile.Garbage(0),
		hostile.Claim(0, 1<<20), bomb} {
		f.Add(batch.Attributes, batch.NumRecords, batch.LastOffsetDelta, batch.Records)
	}
	const most = 64 << 10
	f.Fuzz(func(t *testing.T, attributes int16, count, last int32, records []byte) {
		if len(records) > most {
			return
		}
		batch := hostile.New(0)
		batch.Attributes, batch.NumRecords, batch.LastOffsetDelta, batch.Records = attributes, count, last, records
		raw := batch.Encode()
		good := CheckBatch(raw, most)
		stored := &kmsg.FetchResponseTopicPartition{RecordBatches: raw, HighWatermark: 1 << 40}

		found := newUnpacker(most, false).unreadable("topic", stored, 0)
		if good == nil && found != nil && found.Err != nil {
			t.Fatalf("CheckBatch accepts what cannot be read: %v", found.Err)
		}

		if found != nil && (found.Next < 1 || found.Next > int64(last)+1 || !bytes.Equal(found.Batch, raw)) {
			t.Fatalf("the batch ends at %d, and the client goes on at %d", last, found.Next)
		}
	})
}
