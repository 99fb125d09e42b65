#[test]
fn prep() {
    let t = std::time::Instant::now();
    let p = crate::prepare::Prepared::new(crate::options::Shape::Tiny).unwrap();
    eprintln!("{:?} {:?}", t.elapsed(), p.stretches);
    let t = std::time::Instant::now();
    crate::record::begin();
    let p = crate::prepare::Prepared::new(crate::options::Shape::Spread);
    let l = crate::record::end();
    for x in l.iter().rev().take(30).rev() { eprintln!("{x}"); }
    eprintln!("{:?}", t.elapsed());
    p.map(|_| ()).unwrap();
}
