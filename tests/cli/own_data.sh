# People's own arrays as .npy files: a model learns from them, and what does not fit is refused in words.
. "$ROOT/tests/cli/lib.sh"
npy() { # shape, awk program that prints one number a value: a .npy file of unsigned bytes
    header="{'descr': '|u1', 'fortran_order': False, 'shape': ($1), }"
    printf "\223NUMPY\001\000\\$(printf %03o ${#header})\000%s" "$header"
    awk "BEGIN { $2 }" | awk '{ printf "\\%03o", $1 }' | xargs -0 printf
}
mkdir data
npy "120, 6" 'for (i = 0; i < 120; i++) for (j = 0; j < 6; j++) print j == i % 3 ? 9 : (i * 7 + j * 5) % 3' >data/x_train.npy
npy "120" 'for (i = 0; i < 120; i++) print i % 3' >data/y_train.npy
set -- --device ref --threads 1 --steps 40 --batch 20 --save-every never --quiet
"$STRETTO" train --model mlp --data npy:data --lr 0.05 "$@" --out run 2>err || say "train: $(cat err)"
grep -q '"acc1": 1' run/summary.json || say "accuracy: $(grep acc1 run/summary.json)"
"$STRETTO" train --model mlp --data npy:data,mean=1:1:1:1:1:1,std=4,classes=5 "$@" --out keys 2>err || say "keys: $(cat err)"
"$STRETTO" train --model mlp --data npy:data "$@" -n 2 --quiet off --out two >out 2>err || say "two ranks: $(cat err)"
# each rank says it once, and the launcher leaves it to them; lines that come apart in time are not shown as one
for rank in 0 1; do
    [ "$(grep -c 'npy: rows \[6\], 3 classes' two/rank-$rank.log)" = 1 ] || say "rank $rank: $(cat two/rank-$rank.log)"
done
grep '^stretto: npy: rows' err && say "the launcher says it too: $(cat err)"
"$STRETTO" explain --model mlp --data npy:data >out 2>err || say "explain: $(cat err)"
grep -q "108 samples to train on, 12 to test on" out || say "explain: $(cat out)"
# Other data than the run's are used whole where no test split is theirs, unless --split asks for one; predict needs no labels.
mkdir new && cp data/x_train.npy new && ln -s data linked
"$STRETTO" predict run --input npy:new --output new.npy --as classes --quiet 2>err || say "without labels: $(cat err)"
[ "$(wc -c <new.npy)" = $((128 + 120 * 8)) ] || say "without labels: $(wc -c <new.npy) bytes"
answers 3 "new/y_train.npy" eval run --data npy:new
tested() { # COUNT WHAT OPTIONS...: eval says how many samples of what it tested
    count=$1 what=$2
    shift 2
    "$STRETTO" eval "$@" >out 2>err || say "eval $*: $(cat err)"
    grep -q "^samples  *$count, $what of npy:" out || say "eval $*: $(grep ^samples out)"
}
cp data/y_train.npy new
tested 120 all run --data npy:new
tested 120 all run --data npy:new -n 2 --threads 1
tested 12 "test split" run --data npy:new --split test
tested 108 "train split" run --data npy:new --split train
tested 120 all run/model.safetensors --model mlp --data npy:new
tested 12 "test split" run
tested 12 "test split" run --data npy:data
tested 12 "test split" run --data npy:linked/
answers 2 "one array: its rows are inputs as they are" predict run --input npy:data/x_train.npy --output -
mv data away
answers 3 "these are the data that the run was trained on; --data names others" eval run
[ "$(grep -c . err)" -le 3 ] || say "data that are gone: $(cat err)"
mv away data
refuse() { # words, code: options
    words=$1 code=$2
    shift 2
    "$STRETTO" explain --quiet "$@" >out 2>err
    got=$?
    [ $got -eq "$code" ] || say "$*: exit $got, expected $code"
    grep -q "$words" err || say "$*: says $(cat err)"
    [ "$(wc -l <err)" -le 3 ] || say "$*: more than three lines: $(cat err)"
    tail -n +2 err | grep -v 'python -c' | grep -q '.\{81\}' && say "$*: a hint wider than 80 columns: $(cat err)"
}
refuse "resnet8 reads images, --data npy:data has rows of numbers" 2 --model resnet8 --data npy:data
refuse "mlp reads images" 2 --model mlp --data synthetic:kind=text
refuse "try --data digits, or --model mlp" 2 --model resnet8 --data npy:data
refuse "try --data digits, or --model gpt2-nano" 2 --model resnet8 --data synthetic:kind=text
refuse "or --model resnet8" 2 --model gpt2-nano --data digits
refuse "the argument is missing" 2 --model mlp --data npy
refuse "such as npy:data;" 2 --model mlp --data data
refuse "such as npy:data/x_train.npy;" 2 --model mlp --data data/x_train.npy
touch loose.jpg book.txt table.csv
refuse "numpy.savez('data.npz', x_train=x, y_train=y)" 2 --model mlp --data table.csv
refuse "pictures are read from folders" 2 --model resnet8 --data loose.jpg
refuse "stretto tokens TRAIN.txt DIR" 2 --model gpt2-nano --data book.txt
refuse "unknown data set 'nowhere.txt'$" 2 --model gpt2-nano --data nowhere.txt
refuse "unknown data set 'nowhere'$" 2 --model mlp --data nowhere
printf 'PK\003\004\000\000\010\010' >torch.pth
refuse "torch.pth: PyTorch's own format" 3 --model mlp --weights torch.pth
refuse 'torch.load("torch.pth", weights_only=True); c = c.get("state_dict", c.get("model", c))' 3 --model mlp --weights torch.pth
printf '\200\002\212\012l\374\234F' >old.bin
refuse "old.bin: PyTorch's own format" 3 --model mlp --weights old.bin
printf 'a text that somebody called so' >text.npz
refuse "text.npz: byte 0: not a NumPy array (.npy), nor an archive of them (.npz)" 3 --model mlp --data npy:text.npz
refuse "one array, but samples and labels are needed" 3 --model mlp --data npy:data/x_train.npy
mkdir -p flat && touch flat/1.jpg
refuse "no folder in it holds pictures" 3 --model resnet8 --data folder:flat
refuse "resnet101, ...; --help lists all" 2 --model nothing
mkdir -p words/training/cat words/validation/cat
refuse "words/train: the folder to train on is not there" 3 --model resnet8 --data folder:words
refuse "docs/data.md says what is in it" 3 --model mlp --data mnist:text.npz
refuse "stretto tokens TRAIN.txt DIR" 3 --model gpt2-nano --data tokens:book.txt
refuse "torchvision's is ROOT/MNIST/raw" 3 --model mlp --data mnist:words
refuse "files are the Python version" 3 --model mlp --data cifar10:words
npy "3, 3" 'for (i = 0; i < 9; i++) print i % 4 == 0' >words/y_train.npy
npy "3, 6" 'for (i = 0; i < 18; i++) print i' >words/x_train.npy
refuse "become labels by array.argmax(1)" 3 --model mlp --data npy:words
npy "3" 'for (i = 1; i < 4; i++) print i' >words/y_train.npy
"$STRETTO" explain --quiet --model mlp --data npy:words >out 2>err
grep -q "words/y_train.npy: no sample has label 0" err || say "labels from 1: $(cat err)"
"$STRETTO" explain --quiet --model mlp --data npy:data 2>&1 | grep "has label 0" && say "labels from 0: a warning"
"$STRETTO" eval run/model.safetensors --data npy:data --seq 3 2>err && say "weights without a model: taken"
grep -q "which model they are of" err || say "weights without a model: $(cat err)"
"$STRETTO" train --quiet --model resnet8 --weights run/model.safetensors --out other 2>err && say "another model's: taken"
grep -q "begin with conv1.weight, the file's with fc1" err || say "another model's: $(cat err)"
refuse "a .npz file, or a folder with x_train.npy and y_train.npy" 3 --model mlp --data npy:missing
touch loose.webp
refuse "of pictures JPEG and PNG are read: convert it first" 2 --model resnet8 --data loose.webp
answers 2 "convert it first" predict run --input loose.webp --output -
"$STRETTO" train --model mlp --data npy:data --lr 1e30 "$@" --out nan 2>err
[ $? = 6 ] || say "a rate of 1e30: $(cat err)"
answers 3 "nan: no model.safetensors in this folder: the run ended before it saved one" eval nan
npy "119" 'for (i = 0; i < 119; i++) print i % 3' >data/y_train.npy
refuse "120 samples but data/y_train.npy 119 labels" 3 --model mlp --data npy:data
head -c 100 data/x_train.npy >cut && mv cut data/x_train.npy
refuse "is it truncated" 3 --model mlp --data npy:data
exit $failed
